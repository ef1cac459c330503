package gateway_test

import (
	"context"
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"sealbridge/gateway"
	"sealbridge/gateway/artifact"
	"sealbridge/manifest"
	"sealbridge/manifest/task"
	"sealbridge/policy"
	"sealbridge/policy/approval"
	"sealbridge/relay/relaytest"
	"sealbridge/signing"
	"sealbridge/signing/box"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// rival is a contact whose gateway holds itself to nothing: it signs what it
// likes with Ann's agent key and puts it into Ben's mailbox.
type rival struct {
	t        testing.TB
	mem      *relaytest.Memory
	ann, ben *side
}

func newRival(t testing.TB) rival {
	mem := relaytest.NewMemory()
	ann, ben := pairOn(t, mem)
	ann.stop() // its own gateway says nothing more
	ann.stop = func() {}
	return rival{t, mem, ann, ben}
}

// post seals a document to Ben.
func (r rival) post(wire jcs.Value) {
	r.t.Helper()
	_, key, err := r.ben.home.BoxKey()
	if err != nil {
		r.t.Fatal(err)
	}
	pub, err := box.ParsePublicKeyText(key.Key)
	if err != nil {
		r.t.Fatal(err)
	}
	var chance [16]byte
	if _, err := rand.Read(chance[:]); err != nil {
		r.t.Fatal(err)
	}
	certificate := r.ann.home.Certificate.Digest()
	l := box.Letter{From: r.ann.home.Agent.DID(), To: r.ben.home.Agent.DID(), Salt: box.SaltFrom(chance), CertificateDigest: &certificate, Document: wire}
	plain, err := l.Plain()
	if err != nil {
		r.t.Fatal(err)
	}
	sealed, err := box.Seal(pub, box.Header{V: box.Version, To: l.To, Kid: pub.Kid(), ExpiresAt: signing.TimeOf(time.Now().Add(10 * 24 * time.Hour)),
		Commit: box.Commit(l.Salt, signing.DigestOf(wire.Bytes()))}, plain)
	if err != nil {
		r.t.Fatal(err)
	}
	if _, err := r.mem.Conn(r.ann.home.Agent).Put(context.Background(), l.To, sealed, ""); err != nil {
		r.t.Fatal(err)
	}
}

// offer proposes a contract without gates; it returns the task's id.
func (r rival) offer(mend func(*manifest.TaskManifest)) string {
	r.t.Helper()
	a, b := r.ann.home.Certified(), r.ben.home.Certified()
	id, err := manifest.ParseTaskID("task_" + text128(r.t))
	if err != nil {
		r.t.Fatal(err)
	}
	m, err := manifest.Draft{Title: "Nothing", Goal: "do nothing", Gates: []string{}, Check: []manifest.DraftCheck{{Word: "schema"}}}.Manifest(manifest.Terms{ID: id, At: r.ann.now(),
		Inputs: []manifest.ArtifactRef{}, Requester: manifest.Party{OwnerDid: a.OwnerDid, AgentDid: a.AgentDid}, Worker: manifest.Party{OwnerDid: b.OwnerDid, AgentDid: b.AgentDid}})
	if err != nil {
		r.t.Fatal(err)
	}
	if mend != nil {
		mend(&m)
	}
	block, payload, err := manifest.SignManifest(m, manifest.Requester, r.ann.home.Agent, r.ann.now())
	if err != nil {
		r.t.Fatal(err)
	}
	e := task.Task{}.Next(a.AgentDid, manifest.Body{Fact: manifest.Proposed{Manifest: payload, Signature: block}}, r.ann.now())
	v, err := manifest.Sign(&e, r.ann.home.Agent, r.ann.now())
	if err != nil {
		r.t.Fatal(err)
	}
	r.post(v.Wire())
	return id.String()
}

func (r rival) status() gateway.Status {
	r.t.Helper()
	st, err := r.ben.g.Status(context.Background(), gateway.Owner, gateway.None{})
	if err != nil {
		r.t.Fatal(err)
	}
	return st
}

// month asks for a structured input of one member.
var month = map[string]any{"type": "object", "required": []any{"month"}, "properties": map[string]any{"month": map[string]any{"type": "string"}}}

func TestAProposalWhoseInputDoesNotFitIsNotAsked(t *testing.T) { // M12, the requester's side
	ann, _ := pair(t)
	d := ann.draft()
	d.Input = month
	for what, data := range map[string]any{"nothing": nil, "something else": map[string]any{"month": 11}} {
		d.Data = data
		if _, err := ann.g.Propose(context.Background(), gateway.Owner, gateway.Proposal{To: "Ben", Draft: d}); spec.ReasonOf(err) != spec.VerificationFailed {
			t.Errorf("%s: %v, want verification-failed", what, err)
		}
	}
	if as, err := ann.g.Asks(context.Background(), gateway.Owner, true); err != nil || len(as) != 0 {
		t.Errorf("the owner was asked: %+v, %v", as, err)
	}
	d.Data = map[string]any{"month": "2026-11"}
	if _, err := ann.g.Propose(context.Background(), gateway.Owner, gateway.Proposal{To: "Ben", Draft: d}); err != nil {
		t.Errorf("what fits: %v", err)
	}
}

func TestAContractWithoutTheInputThatItWantsIsDeclined(t *testing.T) { // M12, the worker's side
	r := newRival(t)
	schema, err := manifest.ValueOf(month)
	if err != nil {
		t.Fatal(err)
	}
	none := r.offer(func(m *manifest.TaskManifest) { m.IO.InputSchema = schema })
	large := r.offer(func(m *manifest.TaskManifest) {
		m.IO.InputArtifacts = []manifest.ArtifactRef{{Name: manifest.InputName, Digest: signing.DigestOf([]byte("x")), MediaType: "application/json", SizeBytes: manifest.MaxInput + 1}}
	})
	good := r.offer(nil)
	for _, id := range []string{none, large} {
		r.ben.until("declined "+id, func() bool { return r.ben.state(id).Outcome == "declined" })
	}
	r.ben.askOf(good)
}

// The agent starts only after the file that came was held against the schema: what was promised by digest alone says nothing of it.
func TestWorkDoesNotStartOnAnInputThatDoesNotFit(t *testing.T) { // M12, the worker's side
	r := newRival(t)
	ctx := context.Background()
	schema, err := manifest.ValueOf(month)
	if err != nil {
		t.Fatal(err)
	}
	store, err := artifact.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	ref, err := store.Put(ctx, manifest.InputName, "application/json", strings.NewReader(`{"month":11}`), artifact.MaxSize)
	if err != nil {
		t.Fatal(err)
	}
	id := r.offer(func(m *manifest.TaskManifest) {
		m.IO.InputSchema, m.IO.InputArtifacts = schema, []manifest.ArtifactRef{ref}
	})
	if _, err := r.ben.answer(r.ben.askOf(id), approval.Allow); err != nil {
		t.Fatal(err)
	}
	sealed, err := store.Seal(ctx, ref.Digest, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Upload(ctx, r.mem.Conn(r.ann.home.Agent), r.ann.home.Agent.DID(), r.ben.home.Agent.DID(), sealed); err != nil {
		t.Fatal(err)
	}
	digest, err := signing.ParseDigest(r.ben.state(id).ManifestDigest)
	if err != nil {
		t.Fatal(err)
	}
	taskID, err := manifest.ParseTaskID(id)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := manifest.Sign(&manifest.ArtifactKeys{Type: "sealbridge/artifact-keys", ProtocolVersion: manifest.ProtocolVersion, TaskID: taskID, ManifestDigest: digest,
		AgentDid: r.ann.home.Agent.DID(), Files: []manifest.FileKey{sealed.FileKey()}, At: signing.TimeOf(r.ann.now())}, r.ann.home.Agent, r.ann.now())
	if err != nil {
		t.Fatal(err)
	}
	r.post(keys.Wire())
	r.ben.until("failed", func() bool { return r.ben.state(id).Outcome == "failed" })
	for _, m := range r.ben.state(id).History {
		if m.Kind == manifest.KindStarted {
			t.Error("the agent was started")
		}
	}
}

// Five questions about a contact at once, the rest in line in the order in which they came; the twenty-first proposal is refused.
func TestAContactThatFloodsIsAskedAboutInLine(t *testing.T) { // B9
	r := newRival(t)
	ctx := context.Background()
	var ids []string
	for range policy.MaxOpenProposals {
		id := r.offer(nil)
		r.ben.until("kept "+id, func() bool { v := r.ben.state(id); return v.Waiting != "" })
		ids = append(ids, id)
	}
	r.offer(nil)
	r.ben.until("refused", func() bool { return r.status().Counts["refusals"] == 1 })
	open := func() []gateway.AskView {
		as, err := r.ben.g.Asks(ctx, gateway.Owner, false)
		if err != nil {
			t.Fatal(err)
		}
		return as
	}
	for n, id := range ids {
		as := open()
		if want := min(policy.MaxOpenAsks, len(ids)-n); len(as) != want {
			t.Fatalf("after %d answers %d questions are open, want %d", n, len(as), want)
		}
		if v := r.ben.state(ids[len(ids)-1]); n+policy.MaxOpenAsks < len(ids) && !strings.Contains(v.Waiting, "in line") {
			t.Errorf("the last one waits for %q", v.Waiting)
		}
		if _, err := r.ben.deny(r.ben.askOf(id).Ask.AskID.String(), "no"); err != nil {
			t.Fatal(err)
		}
		if next := n + policy.MaxOpenAsks; next < len(ids) {
			r.ben.askOf(ids[next])
		}
	}
	if as := open(); len(as) != 0 {
		t.Errorf("%d questions are left", len(as))
	}
}

// A line survives a restart, and what its requester ended is passed over.
func TestALineSurvivesARestart(t *testing.T) { // B9, G8
	r := newRival(t)
	var ids []string
	for range policy.MaxOpenAsks + 1 {
		id := r.offer(nil)
		r.ben.until("kept "+id, func() bool { return r.ben.state(id).Waiting != "" })
		ids = append(ids, id)
	}
	r.ben.restart()
	last := ids[len(ids)-1]
	if v := r.ben.state(last); !strings.Contains(v.Waiting, "in line") {
		t.Fatalf("after a restart the last one waits for %q", v.Waiting)
	}
	if _, err := r.ben.deny(r.ben.askOf(ids[0]).Ask.AskID.String(), "no"); err != nil {
		t.Fatal(err)
	}
	r.ben.askOf(last)
}

// Sixty signed refusals to one contact in an hour of the clock; then it hears nothing until the next.
func TestAContactThatIsRefusedTooOftenHearsNothing(t *testing.T) { // B9
	r := newRival(t)
	clock := still(r.ben)
	bad := func(m *manifest.TaskManifest) { m.SandboxPolicy.IsolationLevel = "microvm" }
	for range policy.MaxRefusalsAnHour + 5 {
		r.offer(bad)
	}
	r.ben.until("silent", func() bool { return r.status().Counts["silent refusals"] == 5 })
	if n := r.status().Counts["refusals"]; n != policy.MaxRefusalsAnHour {
		t.Errorf("%d refusals, want %d", n, policy.MaxRefusalsAnHour)
	}
	clock.add(time.Hour)
	r.offer(bad)
	r.ben.until("refused again", func() bool { return r.status().Counts["refusals"] == policy.MaxRefusalsAnHour+1 })
	if n := r.status().Counts["silent refusals"]; n != 5 {
		t.Errorf("%d were silent in all, want 5", n)
	}
}
