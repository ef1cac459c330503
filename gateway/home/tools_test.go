package home

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"sealbridge/spec"
)

func TestToolServersAreReadStrictly(t *testing.T) {
	h := aHome(t, filepath.Join(t.TempDir(), "h"), "")
	base, err := os.ReadFile(filepath.Join(h.Dir, configName))
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]spec.Reason{
		"tools: {docs: {files: ~/docs}, search: {command: [docs-mcp, --root, ~/docs], timeout: 2m}, crm: {url: 'https://x.example/mcp', secrets: crm.headers}}": "",
		"tools: {docs: {files: /d, url: 'https://x'}}": spec.Malformed,
		"tools: {docs: {}}":                            spec.Malformed,
		"tools: {Docs: {files: /d}}":                   spec.Malformed,
		"tools: {do.cs: {files: /d}}":                  spec.Malformed,
		"tools: {docs: {files: /d, secrets: x}}":       spec.Malformed,
		"tools: {docs: {command: [x], timeout: 1h}}":   spec.Malformed,
		"tools: {docs: {command: [x], shell: true}}":   spec.Malformed,
	} {
		if err := os.WriteFile(filepath.Join(h.Dir, configName), append(slices.Clone(base), text+"\n"...), 0o600); err != nil {
			t.Fatal(err)
		}
		again, err := Read(h.Dir)
		if spec.ReasonOf(err) != want {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
		if want == "" && err == nil {
			t.Setenv("HOME", "/home/ann")
			s, err := again.AtHome(again.Config.Tools["search"])
			if err != nil || s.Command[2] != "/home/ann/docs" || again.Config.Tools["search"].Command[2] != "~/docs" {
				t.Errorf("%+v, %v", s, err)
			}
			if c, err := again.AtHome(again.Config.Tools["crm"]); err != nil || c.Secrets != filepath.Join(h.Dir, "crm.headers") {
				t.Errorf("%+v, %v", c, err)
			}
			if names := again.ToolNames(); !slices.Equal(names, []string{"crm", "docs", "search"}) {
				t.Error(names)
			}
		}
	}
}

func TestSecretsThatOthersCanReadAreRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	if err := os.WriteFile(path, []byte("# mine\n\nAuthorization: Bearer x\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := (ToolServer{Secrets: path}).ReadSecrets(); spec.ReasonOf(err) != spec.NotPermitted {
		t.Errorf("0644: %v", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := (ToolServer{Secrets: path}).ReadSecrets(); err != nil || !slices.Equal(got, []string{"Authorization: Bearer x"}) {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := (ToolServer{Secrets: path + "x"}).ReadSecrets(); spec.ReasonOf(err) != spec.NotFound {
		t.Error(err)
	}
}
