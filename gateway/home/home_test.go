package home

import (
	"crypto/rand"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sealbridge/manifest"
	"sealbridge/signing"
	"sealbridge/spec"
)

func aHome(t *testing.T, dir, pass string) *Home {
	t.Helper()
	h, err := Create(dir, New{Name: "Ann", Relay: manifest.RelayRef{Endpoint: "ws://127.0.0.1:1", Did: signing.NewKey([32]byte{9}).DID()}, Passphrase: pass, Chance: rand.Reader, At: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestInitNeverReplacesAnIdentity(t *testing.T) { // B025
	dir := filepath.Join(t.TempDir(), "h")
	h := aHome(t, dir, "")
	before, err := os.ReadFile(filepath.Join(dir, keysDir, ownerKey))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Create(dir, New{Name: "Mallory", Chance: rand.Reader, At: time.Now()}); spec.ReasonOf(err) != spec.Conflict {
		t.Fatalf("a second init: %v, want conflict", err)
	}
	if err := os.Remove(filepath.Join(dir, keysDir, ownerKey)); err != nil { // half an identity is one too
		t.Fatal(err)
	}
	if _, err := Create(dir, New{Name: "Ann", Chance: rand.Reader, At: time.Now()}); spec.ReasonOf(err) != spec.Conflict {
		t.Fatalf("init over half an identity: %v, want conflict", err)
	}
	if err := os.WriteFile(filepath.Join(dir, keysDir, ownerKey), before, 0o600); err != nil {
		t.Fatal(err)
	}
	if again, err := Read(dir); err != nil || again.Owner != h.Owner {
		t.Fatalf("%v, %v", again, err)
	}
}

// failing is chance that ends early, as a machine that dies half-way.
type failing struct{ left int }

func (f *failing) Read(p []byte) (int, error) {
	if f.left -= len(p); f.left < 0 {
		return 0, errors.New("no more")
	}
	return io.ReadFull(rand.Reader, p)
}

func TestAnInterruptedInitLeavesNoIdentity(t *testing.T) { // B025
	for left := range 96 {
		dir := filepath.Join(t.TempDir(), "h")
		if _, err := Create(dir, New{Name: "Ann", Chance: &failing{left}, At: time.Now()}); err == nil {
			t.Fatalf("with %d bytes of chance it worked", left)
		}
		if _, err := os.Stat(filepath.Join(dir, keysDir)); !errors.Is(err, os.ErrNotExist) {
			t.Fatalf("with %d bytes of chance there is half an identity", left)
		}
	}
}

func TestASealedKeyOpensOnlyWithItsPassphrase(t *testing.T) { // I2
	h := aHome(t, filepath.Join(t.TempDir(), "h"), "correct horse")
	if !h.Sealed() {
		t.Fatal("not sealed")
	}
	if _, _, err := h.OwnerSigner(nil); spec.ReasonOf(err) != spec.NotPermitted {
		t.Fatalf("without anybody to ask: %v", err)
	}
	if _, _, err := h.OwnerSigner(func() (string, error) { return "wrong", nil }); spec.ReasonOf(err) != spec.NotPermitted {
		t.Fatalf("a wrong passphrase: %v", err)
	}
	s, presence, err := h.OwnerSigner(func() (string, error) { return "correct horse", nil })
	if err != nil || s.DID() != h.Owner || presence != "passphrase" {
		t.Fatalf("%v, %q, %v", s, presence, err)
	}
	if b, err := os.ReadFile(filepath.Join(h.Dir, policyName)); err != nil || strings.Contains(string(b), "none]") {
		t.Fatalf("the policy of a sealed home counts presence none: %v", err)
	}
}

func TestKeysAreForTheirOwnerAlone(t *testing.T) {
	h := aHome(t, filepath.Join(t.TempDir(), "h"), "")
	files, err := filepath.Glob(filepath.Join(h.Dir, keysDir, "*"))
	if err != nil || len(files) < 5 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, f := range files {
		if i, err := os.Stat(f); err != nil || i.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", f, i.Mode(), err)
		}
	}
}

func TestOneProcessHoldsAHome(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "h")
	aHome(t, dir, "")
	h, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); spec.ReasonOf(err) != spec.Conflict {
		t.Fatalf("a second process: %v, want conflict", err)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	if h, err = Open(dir); err != nil {
		t.Fatal(err)
	}
	h.Close()
}

func TestYAMLIsReadStrictly(t *testing.T) {
	for text, ok := range map[string]bool{
		"name: Ann\nrelay: x\n":                       true,
		"name: Ann\nrelay: x\nagent: {}\n":            false, // unknown key
		"name: Ann\nname: Ben\nrelay: x\n":            false,
		"name: &a Ann\nrelay: *a\n":                   false,
		"name: !!str Ann\nrelay: x\n":                 false,
		"name: Ann\nrelay: x\n---\nname: Ben\n":       false,
		"name: Ann\nrelay: x\nagents: {a: {kind: x}}": false,
	} {
		path := filepath.Join(t.TempDir(), "config.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readConfig(path); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestAnAgentGoesInAndOutOfTheConfiguration(t *testing.T) {
	h := aHome(t, filepath.Join(t.TempDir(), "h"), "")
	before, _ := os.ReadFile(filepath.Join(h.Dir, configName))
	if err := SetAgent(h.Dir, "coder", &Agent{Kind: "exec", Command: []string{"/bin/true", "a b"}}); err != nil {
		t.Fatal(err)
	}
	again, err := Read(h.Dir)
	if err != nil || len(again.Config.Agents["coder"].Command) != 2 {
		t.Fatalf("%+v, %v", again, err)
	}
	if err := SetAgent(h.Dir, "coder", nil); err != nil {
		t.Fatal(err)
	}
	if after, _ := os.ReadFile(filepath.Join(h.Dir, configName)); string(after) != string(before) {
		t.Fatalf("%s\nbecame\n%s", before, after)
	}
}

func TestARestoredHomeSaysSo(t *testing.T) { // R4b
	h := aHome(t, filepath.Join(t.TempDir(), "h"), "")
	file := filepath.Join(t.TempDir(), "backup")
	if err := h.Backup(file, func(to string) error { return os.WriteFile(to, []byte("journal"), 0o600) }); err != nil {
		t.Fatal(err)
	}
	if err := h.Backup(file, func(to string) error { return os.WriteFile(to, nil, 0o600) }); spec.ReasonOf(err) != spec.Conflict {
		t.Fatalf("over a file: %v, want conflict", err)
	}
	dir := filepath.Join(t.TempDir(), "back")
	if err := Restore(dir, file); err != nil {
		t.Fatal(err)
	}
	back, err := Read(dir)
	if err != nil || back.Owner != h.Owner || !back.Restored() {
		t.Fatalf("%+v, %v", back, err)
	}
	if err := Restore(dir, file); spec.ReasonOf(err) != spec.Conflict {
		t.Fatalf("over an identity: %v, want conflict", err)
	}
}

func TestDraftOfTheExampleMakesAContract(t *testing.T) {
	d, err := ReadDraft(filepath.Join("..", "..", "examples", "revenue", "task.yaml"))
	if err != nil || d.Title == "" || len(d.Inputs) != 1 || !filepath.IsAbs(d.Inputs[0].File) && !strings.Contains(d.Inputs[0].File, "revenue") {
		t.Fatalf("%+v, %v", d, err)
	}
}

// A glob of may_send that begins with ~/ means the owner's home folder, and nothing else is expanded.
func TestMaySendKnowsTheHomeFolder(t *testing.T) {
	t.Setenv("HOME", "/home/ann")
	path := filepath.Join(t.TempDir(), "policy.yaml")
	text := strings.Replace(policyText(New{Passphrase: "x"}), "may_send: []", "may_send: [~/shared/**, /data/$HOME/*]", 1)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := ReadPolicy(path)
	if err != nil || !slices.Equal(p.Outgoing[0].MaySend, []string{"/home/ann/shared/**", "/data/$HOME/*"}) {
		t.Errorf("may_send = %v, %v", p.Outgoing[0].MaySend, err)
	}
}

func TestMaySendTakesTheUsersFolder(t *testing.T) { // K3
	real, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(real, "user")
	if err := os.Symlink(filepath.Join(real, "ann"), link); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(real, "ann"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", link)
	h, err := Create(filepath.Join(t.TempDir(), "h"), New{Name: "Ann", Relay: manifest.RelayRef{Endpoint: "ws://127.0.0.1:1", Did: signing.NewKey([32]byte{1}).DID()}, Chance: rand.Reader, At: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(h.Dir, policyName)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(text), "may_send: []", "may_send: [~/shared/**]", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := h.Policy()
	if out := p.OutboundTo("claude", "Ben"); err != nil || !out.Sends(filepath.ToSlash(real)+"/ann/shared/x") || out.Sends(filepath.ToSlash(link)+"/shared/x") {
		t.Errorf("%v, %v", p.Outgoing, err)
	}
}
