package manifest_test

import (
	"encoding/json"
	"errors"
	"flag"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"sealbridge/manifest"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
	"sealbridge/spec/vectors"
)

// with is v with the value at a JSON pointer replaced or added; a last segment - appends to a list.
func with(v jcs.Value, pointer, text string) jcs.Value {
	name, rest, nested := strings.Cut(pointer[1:], "/")
	to := canonicalOrZero(text)
	if v.Kind() == '[' {
		var items []jcs.Value
		for m := range v.Items() {
			items = append(items, m)
		}
		if i, err := strconv.Atoi(name); err == nil {
			if nested {
				to = with(items[i], "/"+rest, text)
			}
			items[i] = to
		} else {
			items = append(items, to)
		}
		return jcs.List(items...)
	}
	if nested {
		m, _ := v.Member(name)
		to = with(m, "/"+rest, text)
	}
	if to.IsZero() {
		return v.Without(name)
	}
	return v.With(name, to)
}

// canonicalOrZero reads text; no text is no value, which takes a member away.
func canonicalOrZero(text string) jcs.Value {
	if text == "" {
		return jcs.Value{}
	}
	return canonical(text)
}

// ruleCase is one step from a good document, signed anew by whoever signed it.
type ruleCase struct {
	name, of, at, to string // of: the fixture; at, to: the change
	word             spec.Reason
	limit            string // what the error's limit begins with
}

var ruleCases = []ruleCase{
	{"deadline before creation", "task-manifest", "/deadline", `"2031-03-01T11:00:00Z"`, spec.Malformed, "M1"},
	{"deadline at creation", "task-manifest", "/deadline", `"2031-03-01T12:00:00.000Z"`, spec.Malformed, "M1"},
	{"deadline past 90 days", "task-manifest", "/deadline", `"2031-05-30T12:00:01Z"`, spec.Malformed, "M1"},
	{"work longer than the deadline allows", "task-manifest", "/budget/maxWallClockSeconds", `28801`, spec.Malformed, "M1"},
	{"grant past the deadline", "task-manifest", "/permissions/grantedCapabilities/0/expiresAt", `"2031-03-01T20:00:00.1Z"`, spec.Malformed, "M1"},
	{"grant to the deadline, in another spelling", "task-manifest", "/permissions/grantedCapabilities/0/expiresAt", `"2031-03-01T20:00:00.000Z"`, "", ""},
	{"offset instead of Z", "task-manifest", "/deadline", `"2031-03-01T20:00:00+00:00"`, spec.Malformed, "a time"},
	{"criterion twice", "task-manifest", "/task/acceptanceCriteria/-", `{"description":"x","id":"ac_counts","required":false}`, spec.Malformed, "M2"},
	{"check twice", "task-manifest", "/verification/checks/-", `{"checkId":"chk_schema","kind":"human_review","target":"delivery"}`, spec.Malformed, "M2"},
	{"digest of nothing", "task-manifest", "/verification/checks/-", `{"checkId":"chk_sum","kind":"sha256_match","target":"abc"}`, spec.Malformed, "M2"},
	{"capability twice", "task-manifest", "/permissions/grantedCapabilities/-", `{"allowedTools":["a"],"capabilityId":"cap_survey_read","expiresAt":"2031-03-01T12:30:00Z","maxInvocations":1,"resource":"mcp://a/b"}`, spec.Malformed, "M2"},
	{"path that climbs", "task-manifest", "/io/inputArtifacts/0/name", `"../secret"`, spec.Malformed, "M3"},
	{"absolute path", "task-manifest", "/io/inputArtifacts/0/name", `"/etc/passwd"`, spec.Malformed, "M3"},
	{"hidden folder", "task-manifest", "/io/inputArtifacts/0/name", `".git/config"`, spec.Malformed, "M3"},
	{"name that is an option", "task-manifest", "/io/inputArtifacts/0/name", `"-rf"`, spec.Malformed, "M3"},
	{"empty segment", "task-manifest", "/io/inputArtifacts/0/name", `"a//b"`, spec.Malformed, "M3"},
	{"ends in a dot", "task-manifest", "/io/inputArtifacts/0/name", `"a./b"`, spec.Malformed, "M3"},
	{"device name", "task-manifest", "/io/inputArtifacts/0/name", `"out/NUL.txt"`, spec.Malformed, "M3"},
	{"device with a number", "task-manifest", "/io/inputArtifacts/0/name", `"com7"`, spec.Malformed, "M3"},
	{"seventeen segments", "task-manifest", "/io/inputArtifacts/0/name", `"a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a"`, spec.Malformed, "M3"},
	{"case-fold twin", "task-manifest", "/io/inputArtifacts/-", `{"digest":"sha256:` + zeros + `","mediaType":"","name":"Data/INPUT.json","sizeBytes":1}`, spec.Malformed, "M3"},
	{"file that is a folder", "task-manifest", "/io/inputArtifacts/-", `{"digest":"sha256:` + zeros + `","mediaType":"","name":"DATA","sizeBytes":1}`, spec.Malformed, "M3"},
	{"allowlist without hosts", "task-manifest", "/sandboxPolicy/allowedHosts", `[]`, spec.Malformed, "M4"},
	{"hosts without an allowlist", "task-manifest", "/sandboxPolicy/networkAccess", `"none"`, spec.Malformed, "M4"},
	{"host with a star", "task-manifest", "/sandboxPolicy/allowedHosts/0", `"*.example.org"`, spec.Malformed, "M4"},
	{"host with a port", "task-manifest", "/sandboxPolicy/allowedHosts/0", `"example.org:443"`, spec.Malformed, "M4"},
	{"address in an odd spelling", "task-manifest", "/sandboxPolicy/allowedHosts/0", `"0177.0.0.1"`, spec.Malformed, "M4"},
	{"address in hex", "task-manifest", "/sandboxPolicy/allowedHosts/0", `"0x7f.0.0.1"`, spec.Malformed, "M4"},
	{"address as one number", "task-manifest", "/sandboxPolicy/allowedHosts/0", `"2130706433"`, spec.Malformed, "M4"},
	{"address as one number in hex", "task-manifest", "/sandboxPolicy/allowedHosts/0", `"0x7f000001"`, spec.Malformed, "M4"},
	{"host with a trailing dot", "task-manifest", "/sandboxPolicy/allowedHosts/0", `"example.org."`, spec.Malformed, "M4"},
	{"IP literal", "task-manifest", "/sandboxPolicy/allowedHosts/0", `"2001:db8::1"`, "", ""},
	{"schema that calls out", "task-manifest", "/io/outputSchema", `{"$ref":"https://example.org/s"}`, spec.Malformed, "references"},
	{"schema of another dialect", "task-manifest", "/io/inputSchema", `{"$schema":"http://json-schema.org/draft-07/schema#"}`, spec.Malformed, "2020-12"},
	{"one owner on both sides", "task-manifest", "/worker/ownerDid", `"` + annOwner.DID().String() + `"`, spec.Malformed, "M7"},
	{"agent and owner are one key", "task-manifest", "/requester/ownerDid", `"` + annAgent.DID().String() + `"`, spec.Malformed, "I5"},
	{"no tools is not every tool", "task-manifest", "/permissions/grantedCapabilities/0/allowedTools", `[]`, spec.Malformed, "1 to 50"}, // B009
	{"null is not every tool", "task-manifest", "/permissions/grantedCapabilities/0/allowedTools", `null`, spec.Malformed, "null"},
	{"no member is not every tool", "task-manifest", "/permissions/grantedCapabilities/0/allowedTools", ``, spec.Malformed, "missing"},
	{"other version", "task-manifest", "/protocolVersion", `"0.2.1"`, spec.Malformed, "must be 0.2.0"},
	{"open proposal", "task-manifest", "/worker", ``, spec.WrongSigner, "S6"}, // M10: nobody to sign for the worker
	{"claim with a worker", "claim with terms", "/draft/worker", `{"agentDid":"` + benAgent.DID().String() + `","ownerDid":"` + benOwner.DID().String() + `"}`, spec.Malformed, "M10"},
	{"claim of another task", "claim with terms", "/draft/taskId", `"task_other_0001"`, spec.Malformed, "M10"},
	{"claim with a signed draft", "claim with terms", "/draft/signatures", `{}`, spec.Malformed, ""},
	{"claim of nothing", "claim", "/digest", ``, spec.Malformed, "missing"},
	{"claim that silently has no draft", "claim", "/draft", ``, spec.Malformed, "missing"},
	{"folded name", "task-manifest", "/Budget", `{}`, spec.Malformed, "unknown member"},

	{"certificate of 91 days", "agent-certificate", "/expiresAt", `"2031-05-31T12:00:00Z"`, spec.Malformed, "I4"},
	{"certificate that ends before it begins", "agent-certificate", "/expiresAt", `"2031-02-01T12:00:00Z"`, spec.Malformed, "I4"},
	{"owner certified as agent", "agent-certificate", "/agentDid", `"` + annOwner.DID().String() + `"`, spec.Malformed, "I5"},
	{"agent as relay", "agent-certificate", "/relay/did", `"` + annAgent.DID().String() + `"`, spec.Malformed, "I5"},
	{"certificate for another owner", "agent-certificate", "/ownerDid", `"` + benOwner.DID().String() + `"`, spec.WrongSigner, "S6"},
	{"box-key of 22 days", "box-key", "/notAfter", `"2031-03-23T12:00:00Z"`, spec.Malformed, "R2"},
	{"box-key with another key's name", "box-key", "/kid", `"sha256:` + zeros + `"`, spec.Malformed, "R2"},
	{"box-key with a padded key", "box-key", "/key", `"a2V5="`, spec.Malformed, "R2"},
	{"one task stands twice", "revocation", "/stands/-", `{"digest":"sha256:` + zeros + `","manifestDigest":"sha256:` + zeros + `","seq":1,"taskId":"task_01JDZ8M4Q2W7N5X3V9K6B1C0RT"}`, spec.Malformed, "H11"},
	{"short secret", "invite", "/secret", `"AAAAAAAAAAAAAAAAAAAAAB"`, spec.Malformed, "K1"},
	{"request to oneself", "contact-request", "/to", `"` + benOwner.DID().String() + `"`, spec.Malformed, "K1"},
	{"receipt for a certificate", "contact-request", "/certificate/type", `"sealbridge/usage-receipt"`, spec.Malformed, "K1"},
	{"presence by rumour", "gate-decision", "/presence", `"rumour"`, spec.Malformed, "G10"},
	{"a channel without a name", "gate-decision", "/presence", `"channel:"`, spec.Malformed, "G10"},
	{"a channel", "gate-decision", "/presence", `"channel:slack"`, "", ""},
	{"consent by rumour", "policy-consent", "/presence", `"rumour"`, spec.Malformed, "G10"},
	{"consent of another owner", "policy-consent", "/ownerDid", `"` + benOwner.DID().String() + `"`, spec.WrongSigner, "S6"},
	{"consent for an owner's own key", "policy-consent", "/agentDid", `"` + annOwner.DID().String() + `"`, spec.Malformed, "I5"},
	{"consent without what was shown", "policy-consent", "/difference", ``, spec.Malformed, "missing"},
	{"consent with a verdict", "policy-consent", "/verdict", `"allow"`, spec.Malformed, "unknown member"},
	{"receipt that is complete and misses something", "usage-receipt", "/complete", `true`, spec.Malformed, "B7"},
	{"usage below zero", "usage-receipt", "/usage/inputTokens", `-1`, spec.Malformed, "num=0"},
	{"key in another spelling", "artifact-keys", "/files/0/key", `"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAB"`, spec.Malformed, "R5"},
	{"pass without depth", "delegation-pass", "/depth", `0`, spec.Malformed, "P2"},
	{"pass to its own issuer", "delegation-pass", "/audience", `"` + annAgent.DID().String() + `"`, spec.Malformed, "P2"},
	{"root with three owners", "delegation-pass", "/owners/-", `"sha256:` + zeros + `"`, spec.Malformed, "P2"},
	{"second step with two owners", "delegation-pass", "/parent", `"sha256:` + zeros + `"`, spec.Malformed, "P2"},
	{"nonce in another spelling", "delegation-pass", "/nonce", `"AAAAAAAAAAAAAAAAAAAAAB"`, spec.Malformed, "P2"},
	{"pass in another's name", "delegation-pass", "/agentDid", `"` + eveAgent.DID().String() + `"`, spec.WrongSigner, "S6"},
	{"hosts without a network", "delegation-pass", "/networkAccess", `"none"`, spec.Malformed, "M4"},
	{"pass that ended before it began", "delegation-pass", "/deadline", `"2031-03-01T12:00:00Z"`, spec.Malformed, "P2"},
	{"acknowledgement of nothing", "refusal", "/type", `"sealbridge/acknowledgement"`, spec.Malformed, "unknown member"},
	{"relay's word", "refusal", "/type", `"sealbridge/checkpoint"`, spec.UnknownType, "not read by this version"},
	{"delivery is no document", "refusal", "/type", `"sealbridge/delivery"`, spec.UnknownType, "S4"},

	{"first event with a predecessor", "event started", "/seq", `1`, spec.Malformed, "H1"},
	{"second event without one", "event started", "/prev", `null`, spec.Malformed, "H1"},
	{"unknown kind", "event started", "/body/kind", `"paused"`, spec.Malformed, "unknown kind"},
	{"kind with a body of another", "event started", "/body/kind", `"cancelled"`, spec.Malformed, "missing"},
	{"author is somebody else", "event started", "/author", `"` + benAgent.DID().String() + `"`, spec.WrongSigner, "S6"},
	{"neither amendment nor child", "event asked", "/body/amendment", ``, spec.Malformed, "H9"},
	{"both amendment and child", "event asked", "/body/child", `{"manifest":{},"pass":null}`, spec.Malformed, "H9"},
	{"child of another task", "event asked again", "/body/child/manifest/parentTaskId", `"task_other_0001"`, spec.Malformed, "P1"},
	{"child of no task", "event asked again", "/body/child/manifest/parentTaskId", ``, spec.Malformed, "P1"},
	{"child for nobody", "event asked again", "/body/child/manifest/worker", ``, spec.Malformed, "P1"},
	{"child of another agent", "event asked again", "/body/child/manifest/requester/agentDid", `"` + eveAgent.DID().String() + `"`, spec.Malformed, "P1"},
	{"deep child without its pass", "event asked again", "/body/child/pass", `null`, spec.Malformed, "P2"},
	{"leaf with a pass", "event asked again", "/body/child/manifest/permissions/maxDelegationDepth", `0`, spec.Malformed, "P2"},
	{"amendment of nothing", "event asked", "/body/amendment", `{}`, spec.Malformed, "H10"},
	{"receipt as decision", "event completed", "/body/decision/type", `"sealbridge/usage-receipt"`, spec.Malformed, "G1"},
	{"opened host with a port", "event progressed again", "/body/opens/host", `"api.example.org:443"`, spec.Malformed, "M4"},
	{"opened host in another spelling", "event progressed again", "/body/opens/host", `"0x7f.0.0.1"`, spec.Malformed, "M4"},
	{"receipt as decision about a host", "event progressed again", "/body/opens/decision/type", `"sealbridge/usage-receipt"`, spec.Malformed, "G1"},
	{"reached host with a star", "event delivered", "/body/delivery/attestation/reached/0/host", `"*.example.org"`, spec.Malformed, "M4"},
	{"reached address in another spelling", "event delivered", "/body/delivery/attestation/reached/0/addresses/0", `"2606:2800:021f::1"`, spec.Malformed, "X2"},
	{"reached address inside another", "event delivered", "/body/delivery/attestation/reached/0/addresses/0", `"::ffff:10.0.0.1"`, spec.Malformed, "X2"},
	{"delivered path that climbs", "event delivered", "/body/delivery/artifacts/0/name", `"a/../b"`, spec.Malformed, "M3"},
	{"acceptance of another contract", "event accepted", "/manifestDigest", `"sha256:` + zeros + `"`, spec.BadDigest, "S8"},
	{"proposal of another contract", "event proposed", "/manifestDigest", `"sha256:` + zeros + `"`, spec.BadDigest, "S8"},
	{"proposal of another task", "event proposed", "/taskId", `"task_00000000"`, spec.Malformed, "H:"},
	{"proposal with a changed contract", "event proposed", "/body/manifest/budget/maxInputTokens", `200001`, spec.BadDigest, "S2"},
	{"empty text is left out", "event failed", "/body/text", `""`, spec.Malformed, "1 to 2000"},
}

const zeros = "0000000000000000000000000000000000000000000000000000000000000000"

func (c ruleCase) wire(t *testing.T, all map[string]jcs.Value) jcs.Value {
	keys := map[string]signing.Signer{}
	for _, k := range []signing.Signer{annOwner, annAgent, benOwner, benAgent} {
		keys[k.DID().String()] = k
	}
	v, ok := all[c.of]
	if !ok {
		t.Fatalf("%s: no fixture %s", c.name, c.of)
	}
	changed := with(v, c.at, c.to)
	if out, ok := resign(changed, keys); ok {
		return out
	}
	return changed
}

func TestRulesBeyondTheSchema(t *testing.T) {
	all := everyWire(t)
	for _, c := range ruleCases {
		_, err := manifest.Open(c.wire(t, all).Bytes(), nil)
		var e *spec.Error
		if spec.ReasonOf(err) != c.word || err != nil && (!errors.As(err, &e) || !strings.HasPrefix(e.Limit, c.limit)) {
			t.Errorf("%s: %v, want %s: %s", c.name, err, c.word, c.limit)
		}
	}
}

var update = flag.Bool("update", false, "write spec/vectors/manifest.json anew")

type vector struct {
	Name     string    `json:"name"`
	Document jcs.Value `json:"document"`
	Word     string    `json:"word"`           // of Open; ok for a good one
	Path     string    `json:"path,omitempty"` // in the refusal
	Digest   string    `json:"digest,omitempty"`
}

// TestVectors holds the published vectors against this reader, and against the
// tables of these tests, from which -update writes them: signatures are
// deterministic, so the file cannot drift.
func TestVectors(t *testing.T) {
	all := everyWire(t)
	var made []vector
	add := func(name string, v jcs.Value) {
		s, err := manifest.Open(v.Bytes(), nil)
		row := vector{Name: name, Document: v, Word: "ok"}
		if err != nil {
			var e *spec.Error
			errors.As(err, &e)
			row.Word, row.Path = string(e.Reason), e.Path
		} else {
			row.Digest = s.Digest().String()
		}
		made = append(made, row)
	}
	for _, name := range sorted(all) {
		add(name, all[name])
	}
	for _, c := range ruleCases {
		add(c.of+": "+c.name, c.wire(t, all))
	}
	if *update {
		writeVectors(t, made)
		return
	}
	var have []vector
	if err := json.Unmarshal(vectors.Own(t, "manifest.json"), &have); err != nil {
		t.Fatal(err)
	}
	if len(have) != len(made) {
		t.Fatalf("%d vectors, the tables have %d: run go test -run TestVectors -update", len(have), len(made))
	}
	for i, h := range have {
		if h != made[i] {
			t.Errorf("%s: the vector says %s %s %s, Open says %s %s %s", h.Name, h.Word, h.Path, h.Digest, made[i].Word, made[i].Path, made[i].Digest)
		}
	}
}

func writeVectors(t *testing.T, rows []vector) {
	var b strings.Builder
	b.WriteString("[\n")
	for i, r := range rows {
		line, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(line)
		if i < len(rows)-1 {
			b.WriteByte(',')
		}
		b.WriteByte('\n')
	}
	b.WriteString("]\n")
	if err := os.WriteFile("../spec/vectors/manifest.json", []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestProposalsDeadlineLiesAhead(t *testing.T) {
	m := contract()
	for _, c := range []struct {
		at   time.Time
		word spec.Reason
	}{
		{noon, ""}, {noon.Add(-time.Minute), ""}, {noon.Add(-61 * time.Second), spec.Malformed},
		{noon.Add(8*time.Hour - time.Second), ""}, {noon.Add(8 * time.Hour), spec.Expired},
	} {
		if err := m.ValidAt(c.at); spec.ReasonOf(err) != c.word {
			t.Errorf("ValidAt(%s): %v, want %q", c.at, err, c.word)
		}
	}
}
