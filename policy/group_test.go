package policy

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sealbridge/manifest"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

func member(i int) Member {
	return Member{Task: manifest.TaskKey{Owner: ann.owner.DID(), ID: must(manifest.ParseTaskID(fmt.Sprintf("task_group_%04d", i)))},
		Owner: signing.NewKey([32]byte{9, byte(i)}).DID()}
}

func group(k manifest.GroupKind, need int64, n int) Group {
	g := Group{Kind: k, Need: need}
	for i := range n {
		g.Members = append(g.Members, member(i))
	}
	return g
}

func same(answer byte) signing.Digest { return signing.DigestOf([]byte{answer}) }

func TestAGroupHasTwoToTenOwnersAndAMajority(t *testing.T) { // P4
	twins := group(manifest.Race, 1, 2)
	twins.Members[1].Owner = twins.Members[0].Owner
	for _, tt := range []struct {
		what string
		g    Group
		want spec.Reason
	}{
		{"a race of two", group(manifest.Race, 1, 2), ""},
		{"a race of ten", group(manifest.Race, 1, 10), ""},
		{"a race of one", group(manifest.Race, 1, 1), spec.Malformed},
		{"a race of eleven", group(manifest.Race, 1, 11), spec.Malformed},
		{"a race of twins", twins, spec.Malformed},
		{"2 of 2", group(manifest.Quorum, 2, 2), ""},
		{"2 of 3", group(manifest.Quorum, 2, 3), ""},
		{"2 of 4, which two answers could have", group(manifest.Quorum, 2, 4), spec.Malformed},
		{"3 of 4", group(manifest.Quorum, 3, 4), ""},
		{"1 of 2", group(manifest.Quorum, 1, 2), spec.Malformed},
		{"3 of 2", group(manifest.Quorum, 3, 2), spec.Malformed},
		{"neither", group("", 1, 2), spec.Malformed},
	} {
		if err := tt.g.Check(); spec.ReasonOf(err) != tt.want {
			t.Errorf("%s: %v, want %q", tt.what, err, tt.want)
		}
	}
}

func TestARaceIsJudgedByMoreThanAShape(t *testing.T) { // P4
	shape := manifest.Check{CheckID: must(manifest.ParseCheckID("chk_1")), Kind: "json_schema", Target: "output"}
	digest := manifest.Check{CheckID: must(manifest.ParseCheckID("chk_2")), Kind: "sha256_match", Target: "sha256:" + strings.Repeat("0", 64)}
	for _, tt := range []struct {
		mode   string
		checks []manifest.Check
		gate   bool
		want   bool
	}{
		{"schema_only", nil, false, false},
		{"schema_only", []manifest.Check{shape}, false, false},
		{"schema_only", []manifest.Check{shape}, true, true}, // a person looks
		{"automated_checks", []manifest.Check{shape}, false, false},
		{"automated_checks", []manifest.Check{shape, digest}, false, true},
		{"human_in_the_loop", nil, false, true},
		{"hybrid", []manifest.Check{shape}, false, true},
	} {
		s := newScene(t, func(m *manifest.TaskManifest) {
			m.Verification.Mode, m.Verification.Checks, m.HITLPolicy.RequiredGates = tt.mode, tt.checks, []manifest.Gate{manifest.ContractGate}
			if tt.gate {
				m.HITLPolicy.RequiredGates = append(m.HITLPolicy.RequiredGates, manifest.DeliveryGate)
			}
		})
		c := s.draft(manifest.Requester, manifest.Requester, s.proposal())
		g := group(manifest.Race, 1, 2)
		c.Group, c.Together = &g, manifest.Race
		d := Default().Decide(c)
		if held := d.Outcome == Hold; held != tt.want || !held && (d.Rule != "P4" || d.Reason != spec.PolicyDenied) {
			t.Errorf("a race with %s, %d checks, delivery gate %v: %v %s %s", tt.mode, len(tt.checks), tt.gate, d.Outcome, d.Rule, d.Reason)
		}
		c.Group, c.Together = nil, ""
		if d := Default().Decide(c); d.Outcome != Hold {
			t.Errorf("alone with %s: %v %s", tt.mode, d.Outcome, d.Rule)
		}
	}
}

func TestOneTaskOfAGroupIsCompleted(t *testing.T) { // P4
	s := newScene(t, nil).delivered()
	c := s.draft(manifest.Requester, manifest.Requester, s.completion())
	for _, tt := range []struct {
		what string
		mend func(*Group)
		want Outcome
		word spec.Reason
	}{
		{"a race in which nothing is taken", func(*Group) {}, Hold, ""},
		{"a race that another won", func(g *Group) { g.Members[1].Taken = true }, Deny, spec.Conflict},
		{"a quorum with the same of two", func(g *Group) { g.Kind, g.Need, g.Members[1].Same = manifest.Quorum, 2, same(1) }, Hold, ""},
		{"a quorum with another of the second", func(g *Group) { g.Kind, g.Need, g.Members[1].Same = manifest.Quorum, 2, same(2) }, Deny, spec.VerificationFailed},
		{"a quorum whose second went", func(g *Group) {
			g.Kind, g.Need, g.Members[1].Same, g.Members[1].Over = manifest.Quorum, 2, same(1), true
		}, Deny, spec.VerificationFailed},
	} {
		g := group(manifest.Race, 1, 3)
		g.Members[0].Task, g.Members[0].Same = s.task.Key(), same(1)
		tt.mend(&g)
		c.Group = &g
		d := Default().Decide(c)
		if d.Outcome != tt.want || tt.word != "" && (d.Reason != tt.word || d.Rule != "P4") {
			t.Errorf("%s: %v %s %s", tt.what, d.Outcome, d.Rule, d.Reason)
		}
		c.Consents = []Consent{}
		if held := Contract(c); held.Outcome == Hold { // a yes does not help where the group says no
			c.Consents = []Consent{yes(held.Gate)}
		}
		if d := Default().Decide(c); (d.Outcome == Allow) != (tt.want == Hold) {
			t.Errorf("%s, with a yes: %v %s", tt.what, d.Outcome, d.Rule)
		}
		c.Consents = nil
	}
}

func TestWhereAGroupStands(t *testing.T) {
	for _, tt := range []struct {
		what string
		g    Group
		each []byte // same of each task; 0: still at work, 'x': over, 't': taken
		want GroupState
	}{
		{"nothing came", group(manifest.Race, 1, 2), []byte{0, 0}, GroupOpen},
		{"one waits", group(manifest.Race, 1, 2), []byte{1, 0}, GroupOpen},
		{"all over", group(manifest.Race, 1, 2), []byte{'x', 'x'}, GroupOver},
		{"taken", group(manifest.Race, 1, 2), []byte{'t', 'x'}, GroupTaken},
		{"one of two needed", group(manifest.Quorum, 2, 3), []byte{1, 0, 0}, GroupOpen},
		{"two the same", group(manifest.Quorum, 2, 3), []byte{1, 1, 0}, GroupAgreed},
		{"two differ, one to come", group(manifest.Quorum, 2, 3), []byte{1, 2, 0}, GroupOpen},
		{"three differ", group(manifest.Quorum, 2, 3), []byte{1, 2, 3}, GroupDisagreed},
		{"two differ, one gone", group(manifest.Quorum, 2, 3), []byte{1, 2, 'x'}, GroupDisagreed},
		{"too few left", group(manifest.Quorum, 2, 3), []byte{0, 'x', 'x'}, GroupDisagreed},
		{"none left", group(manifest.Quorum, 2, 3), []byte{'x', 'x', 'x'}, GroupOver},
	} {
		for i, s := range tt.each {
			switch s {
			case 0:
			case 'x':
				tt.g.Members[i].Over = true
			case 't':
				tt.g.Members[i].Taken = true
			default:
				tt.g.Members[i].Same = same(s)
			}
		}
		if got := tt.g.State(); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.what, got, tt.want)
		}
	}
}

// Whatever happens to its tasks, at most one answer has the quorum, and what is
// agreed may be completed.
func TestTwoAnswersNeverHaveTheQuorum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, MaxGroup).Draw(t, "tasks")
		g := group(manifest.Quorum, int64(rapid.IntRange(max(2, n/2+1), n).Draw(t, "need")), n)
		if err := g.Check(); err != nil {
			t.Fatal(err)
		}
		for i := range g.Members {
			if a := rapid.ByteRange(0, 3).Draw(t, "answer"); a > 0 {
				g.Members[i].Same = same(a)
			}
			g.Members[i].Over = rapid.IntRange(0, 4).Draw(t, "over") == 0
		}
		answers := map[signing.Digest]bool{}
		for _, m := range g.Members {
			if !m.Over && g.complete(m.Task) == nil {
				answers[m.Same] = true
			}
		}
		if len(answers) > 1 || (len(answers) == 1) != (g.State() == GroupAgreed) {
			t.Fatalf("%d answers may be completed, state %s: %+v", len(answers), g.State(), g)
		}
	})
}

func TestTheSameIsOutputAndFilesAndNothingElse(t *testing.T) {
	file := func(name, text string) manifest.ArtifactRef {
		return manifest.ArtifactRef{Name: name, Digest: signing.DigestOf([]byte(text)), MediaType: "text/csv", SizeBytes: 3}
	}
	base := manifest.Delivery{Revision: 1, Output: must(jcs.Parse([]byte(`{"n":3}`))), Artifacts: []manifest.ArtifactRef{file("a", "1"), file("b", "2")}}
	alike := base
	alike.Revision, alike.Evidence = 2, []manifest.Evidence{{Text: "mine"}}
	alike.Artifacts = []manifest.ArtifactRef{file("b", "2"), file("a", "1")}
	alike.Artifacts[0].MediaType = "text/plain"
	if Sameness(base) != Sameness(alike) || Sameness(base).IsZero() {
		t.Error("order, evidence or revision made another answer")
	}
	for what, mend := range map[string]func(*manifest.Delivery){
		"output":  func(d *manifest.Delivery) { d.Output = must(jcs.Parse([]byte(`{"n":4}`))) },
		"a byte":  func(d *manifest.Delivery) { d.Artifacts = []manifest.ArtifactRef{file("a", "1"), file("b", "3")} },
		"a name":  func(d *manifest.Delivery) { d.Artifacts = []manifest.ArtifactRef{file("a", "1"), file("c", "2")} },
		"a file":  func(d *manifest.Delivery) { d.Artifacts = d.Artifacts[:1] },
		"swapped": func(d *manifest.Delivery) { d.Artifacts = []manifest.ArtifactRef{file("a", "2"), file("b", "1")} },
	} {
		d := base
		mend(&d)
		if Sameness(d) == Sameness(base) {
			t.Errorf("%s does not count", what)
		}
	}
}
