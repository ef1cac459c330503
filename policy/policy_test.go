package policy

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"sealbridge/manifest"
	"sealbridge/signing"
	"sealbridge/spec"
)

func TestDefaultIsValidAndAsks(t *testing.T) {
	p := Default()
	if err := p.Validate(); err != nil {
		t.Fatalf("Validate = %v", err)
	}
	for g, want := range map[manifest.Gate]time.Duration{manifest.ContractGate: 24 * time.Hour, manifest.EffectGate: time.Hour,
		manifest.BudgetGate: 4 * time.Hour, manifest.SubGate: 24 * time.Hour, manifest.DeliveryGate: 72 * time.Hour} {
		if got := WaitFor(g, p.Ask.Of(g)); got != want {
			t.Errorf("%s is asked for %v, want %v", g, got, want)
		}
		if got := WaitFor(g, Ask{}); got != want {
			t.Errorf("%s without a row is asked for %v, want %v", g, got, want)
		}
	}
	if _, i := p.Tool("docs.read"); i < 0 || p.Tools[i].Then != ThenRefuse {
		t.Error("a tool of ours may be called under the default policy")
	}
}

// TestDigestNamesThePolicy: another policy, another digest; through JSON the same.
func TestDigestNamesThePolicy(t *testing.T) {
	p, q := Default(), Default()
	q.Incoming[0].Then = ThenRefuse
	if p.Digest().IsZero() || p.Digest() == q.Digest() {
		t.Errorf("Digest = %v and %v", p.Digest(), q.Digest())
	}
	b, err := json.Marshal(p)
	var back Policy
	if err == nil {
		err = json.Unmarshal(b, &back)
	}
	if err != nil || back.Digest() != p.Digest() {
		t.Errorf("through JSON: %v, %v, want %v", err, back.Digest(), p.Digest())
	}
}

// TestValidateNamesThePlace has one row for each member that can be wrong.
func TestValidateNamesThePlace(t *testing.T) {
	minus := Amount(-1)
	for _, c := range []struct {
		path  string
		spoil func(*Policy)
	}{
		{"/version", func(p *Policy) { p.Version = 0 }},
		{"/people/x", func(p *Policy) { p.People["x"] = Person{} }},
		{"/people/x/gates", func(p *Policy) { p.People["x"] = Person{Key: ann.owner.DID()} }},
		{"/people/x/gates/0", func(p *Policy) { p.People["x"] = Person{Key: ann.owner.DID(), Gates: []GateWord{"all"}} }},
		{"/people/me", func(p *Policy) { p.People["me"] = Person{Owner: true, Until: "2027-01-01"} }},
		{"/ask/contract/who", func(p *Policy) { p.Ask.Contract.Who = nil }},
		{"/ask/budget/who/0", func(p *Policy) { p.Ask.Budget.Who = []string{"nobody"} }},
		{"/ask/delivery/wait", func(p *Policy) { p.Ask.Delivery.Wait = Duration(8 * 24 * time.Hour) }},
		{"/ask/effect/need", func(p *Policy) { p.Ask.Effect.Need = 2 }},
		{"/ask/effect/presence/0", func(p *Policy) { p.Ask.Effect.Presence = []string{"a-word"} }},
		{"/incoming/0/from", func(p *Policy) { p.Incoming[0].From = nil }},
		{"/incoming/0/from", func(p *Policy) { p.Incoming[0].From = Names{"ben", Anyone} }},
		{"/incoming/0/then", func(p *Policy) { p.Incoming[0].Then = ThenAllow }},
		{"/incoming/0/then", func(p *Policy) { p.Incoming[0].Then = "" }},
		{"/incoming/1/name", func(p *Policy) { p.Incoming = append(p.Incoming, p.Incoming[0]) }},
		{"/incoming/0/at_most/input_tokens", func(p *Policy) { p.Incoming[0].AtMost.InputTokens = &minus }},
		{"/outgoing/0/per_day/tasks", func(p *Policy) { p.Outgoing[0].PerDay.Tasks = &minus }},
		{"/outgoing/0/may_send/0", func(p *Policy) { p.Outgoing[0].MaySend = []string{"shared/**"} }},
		{"/outgoing/0/may_send/0", func(p *Policy) { p.Outgoing[0].MaySend = []string{"/a/../etc/*"} }},
		{"/outgoing/0/to", func(p *Policy) { p.Outgoing[0].To = nil }},
		{"/tools/0/match", func(p *Policy) { p.Tools[0].Match = "a*b*" }},
		{"/tools/0/effect", func(p *Policy) { p.Tools[0] = Tool{Match: "docs.*", Then: ThenAllow} }},
		{"/checks/0", func(p *Policy) { p.Checks = []string{""} }},
		{"/defaults/deadline", func(p *Policy) { p.Defaults.Deadline = 0 }},
		{"/defaults/gates/1", func(p *Policy) { p.Defaults.Gates = []GateWord{BudgetWord, BudgetWord} }},
		{"/defaults/budget/over", func(p *Policy) { p.Defaults.Budget.Over = "" }},
	} {
		p := Default()
		c.spoil(&p)
		err := p.Validate()
		if spec.ReasonOf(err) != spec.Malformed || pathOf(err) != c.path {
			t.Errorf("Validate = %v, want malformed at %s", err, c.path)
		}
	}
	if err := (Policy{}).Validate(); err == nil {
		t.Error("an empty policy is a law")
	}
}

func TestWordsOfAPolicy(t *testing.T) {
	for s, want := range map[string]time.Duration{"15m": 15 * time.Minute, "1d": 24 * time.Hour, "90s": 90 * time.Second, "0s": 0} {
		var d Duration
		if err := d.UnmarshalText([]byte(s)); err != nil || time.Duration(d) != want {
			t.Errorf("Duration %q = %v, %v", s, d, err)
		}
	}
	for s, want := range map[string]Amount{"0": 0, "100": 100, "500k": 500_000, "2M": 2_000_000} {
		var a Amount
		if err := a.UnmarshalText([]byte(s)); err != nil || a != want {
			t.Errorf("Amount %q = %v, %v", s, a, err)
		}
	}
	for _, s := range []string{"", "1", "-1d", "1.5h", "1w", "d", "+1d", "99999999999d", " 1d"} {
		if err := new(Duration).UnmarshalText([]byte(s)); err == nil {
			t.Errorf("Duration %q was read", s)
		}
	}
	for _, s := range []string{"", "-1", "1.5k", "k", "1e3", "+5", "99999999999", "0x1"} {
		if err := new(Amount).UnmarshalText([]byte(s)); err == nil {
			t.Errorf("Amount %q was read", s)
		}
	}
}

// TestPolymorphicMembers reads what YAML may say in two ways, through a reader
// such as a YAML library hands in.
func TestPolymorphicMembers(t *testing.T) {
	reader := func(v any) func(any) error {
		return func(to any) error {
			from, dst := reflect.ValueOf(v), reflect.ValueOf(to).Elem()
			if !from.Type().AssignableTo(dst.Type()) {
				return errNames
			}
			dst.Set(from)
			return nil
		}
	}
	var n Names
	if err := n.UnmarshalYAML(reader("anyone")); err != nil || !n.has("ben") || !n.has("") {
		t.Errorf("anyone = %v, %v", n, err)
	}
	if err := n.UnmarshalYAML(reader([]string{"ben"})); err != nil || !n.has("ben") || n.has("eve") || n.has("") {
		t.Errorf("[ben] = %v, %v", n, err)
	}
	for _, bad := range []any{"ben", []string{"anyone"}, 5} {
		if err := new(Names).UnmarshalYAML(reader(bad)); err == nil {
			t.Errorf("names %v were read", bad)
		}
	}
	var p Person
	if err := p.UnmarshalYAML(reader("owner")); err != nil || !p.Owner {
		t.Errorf("owner = %v, %v", p, err)
	}
	if err := new(Person).UnmarshalYAML(reader("root")); err == nil {
		t.Error("me: root was read")
	}
	var w Words
	if err := w.UnmarshalYAML(reader("none")); err != nil || len(w) != 1 {
		t.Errorf("effect: none = %v, %v", w, err)
	}
}

// TestNoNamesIsNobody is B009: an empty list and a missing one mean nothing, never everything.
func TestNoNamesIsNobody(t *testing.T) {
	for _, n := range []Names{nil, {}, {""}} {
		if n.has("ben") || n.has("") {
			t.Errorf("%#v covers somebody", n)
		}
	}
}

func TestMaySendIsAListOfPlaces(t *testing.T) {
	globs := []string{"/home/ann/shared/**", "/data/*.csv"}
	for path, want := range map[string]bool{
		"/home/ann/shared/a.csv": true, "/home/ann/shared/deep/er/a.csv": true, "/data/x.csv": true,
		"/home/ann/shared": false, "/home/ann/sharedx/a": false, "/data/deep/x.csv": false, "/data/x.csv.key": false,
		"/home/ann/shared/.ssh/id": false, "/home/ann/shared/.env": false, "/home/ann/shared/../.ssh/id": false,
		"home/ann/shared/a": false, "": false, "/home/ann/shared//a": false,
	} {
		if got := maySend(globs, path); got != want {
			t.Errorf("maySend(%q) = %v, want %v", path, got, want)
		}
	}
	if maySend(nil, "/data/x.csv") || maySend([]string{}, "/data/x.csv") {
		t.Error("no globs let a file leave")
	}
}

func FuzzGlob(f *testing.F) {
	f.Add("/home/*/**", "/home/a/b")
	f.Add("~/shared/**", "/x")
	f.Fuzz(func(t *testing.T, glob, path string) {
		if maySend([]string{glob}, path) && (!strings.HasPrefix(path, "/") || strings.Contains(path, "/.")) {
			t.Errorf("%q let %q leave", glob, path)
		}
	})
}

func TestSubjectsDiffer(t *testing.T) {
	a := manifest.Amendment{Budget: &manifest.Meters{InputTokens: 5, WallClockSeconds: 1}}
	first := signing.DigestOf([]byte("first"))
	c := signing.DigestOf([]byte("contract"))
	all := map[string]signing.Digest{
		"asker": AmendmentSubject(c, a, nil), "answerer": AmendmentSubject(c, a, &first),
		"other base": AmendmentSubject(first, a, nil), "contract": ContractSubject(ann.payload()),
		"effect": EffectSubject(Effect{Tool: "t", Arguments: ann.payload()}), "other call": EffectSubject(Effect{Tool: "t", CallID: "2", Arguments: ann.payload()}),
	}
	seen := map[signing.Digest]string{}
	for name, d := range all {
		if d.IsZero() || seen[d] != "" {
			t.Errorf("%s has the digest of %q: %v", name, seen[d], d)
		}
		seen[d] = name
	}
	if d := EffectSubject(Effect{Tool: "t"}); !d.IsZero() {
		t.Error("an effect without arguments has a subject")
	}
}
