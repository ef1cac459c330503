package manifest_test

import (
	"encoding/base64"
	"slices"
	"testing"
	"time"

	"sealbridge/manifest"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/signing/passkey/passkeytest"
)

// The people of these tests: Ann asks, Ben works, Eve is nobody's contact.
var (
	annOwner, annAgent = signing.NewKey([32]byte{1}), signing.NewKey([32]byte{2})
	benOwner, benAgent = signing.NewKey([32]byte{3}), signing.NewKey([32]byte{4})
	eveOwner, eveAgent = signing.NewKey([32]byte{5}), signing.NewKey([32]byte{6})
	relayDID           = signing.NewKey([32]byte{7}).DID()
	annPhone           = signing.NewKey([32]byte{8}) // an approver's
	annPasskey         = passkeytest.New(8, "localhost", "http://localhost:7811")

	noon = time.Date(2031, 3, 1, 12, 0, 0, 0, time.UTC)
)

func later(d time.Duration) signing.Time { return signing.TimeOf(noon.Add(d)) }

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func canonical(text string) jcs.Value { return must(jcs.Canonicalize([]byte(text))) }

func digestOf(text string) signing.Digest { return signing.DigestOf([]byte(text)) }

func ptr[T any](v T) *T { return &v }

const day = 24 * time.Hour

var taskID = must(manifest.ParseTaskID("task_01JDZ8M4Q2W7N5X3V9K6B1C0RT"))

func contract() manifest.TaskManifest {
	return manifest.TaskManifest{
		ProtocolVersion: manifest.ProtocolVersion, TaskID: taskID,
		ParentTaskID: ptr(must(manifest.ParseTaskID("task_parent_0001"))),
		CreatedAt:    later(0), Deadline: later(8 * time.Hour),
		Requester: manifest.Party{OwnerDid: annOwner.DID(), AgentDid: annAgent.DID(), DisplayName: "Kite Studio", RelayEndpoint: "wss://relay.example.org/a"},
		Worker:    &manifest.Party{OwnerDid: benOwner.DID(), AgentDid: benAgent.DID(), DisplayName: "Lark Data"},
		Task: manifest.Work{SkillID: "survey", TaskType: "report", Title: "Summarise the spring survey", Description: "Group the answers — with counts.",
			AcceptanceCriteria: []manifest.Criterion{{ID: must(manifest.ParseCriterionID("ac_counts")), Description: "Every region has a count.", Required: true}}},
		IO: manifest.IO{InputSchema: canonical(`{"type":"object"}`), OutputSchema: canonical(`{"type":"object","required":["regions"]}`),
			InputArtifacts: []manifest.ArtifactRef{{Name: "data/input.json", Digest: digestOf("in"), MediaType: "application/json", SizeBytes: 12}}},
		Verification: manifest.Verification{Mode: "hybrid", RequireUsageReceipt: true, MaxRetries: 1,
			Checks: []manifest.Check{{CheckID: must(manifest.ParseCheckID("chk_schema")), Kind: "json_schema", Target: "output", ExpectedExitCode: ptr(int64(0))}}},
		Budget: manifest.Budget{CostBearer: "worker_byok", MaxInputTokens: 200000, MaxOutputTokens: 20000, MaxToolInvocations: 50,
			MaxWallClockSeconds: 3600, OnOverrun: "hard_stop", SettlementExtension: canonical(`{"plugin":"none"}`)},
		Permissions: manifest.Permissions{MaxDelegationDepth: 1, GrantedCapabilities: []manifest.Grant{{
			CapabilityID: capability("cap_survey_read"), Resource: "mcp://kite-studio/survey/*", AllowedTools: []string{"read_rows"},
			ArgConstraints: canonical(`{"type":"object"}`), MaxInvocations: 20, ExpiresAt: later(7 * time.Hour)}}},
		SandboxPolicy: manifest.SandboxPolicy{AllowSubprocessFallback: ptr(false), IsolationLevel: "subprocess_restricted", NetworkAccess: "allowlist_only",
			AllowedHosts: []string{"api.example.org"}, FilesystemScope: "ephemeral_workspace_only"},
		HITLPolicy: manifest.HITLPolicy{RequiredGates: []manifest.Gate{manifest.ContractGate, manifest.DeliveryGate}},
	}
}

func capability(s string) (id manifest.CapabilityID) {
	if err := id.UnmarshalText([]byte(s)); err != nil {
		panic(err)
	}
	return id
}

// signedContract is the manifest with both blocks, canonical.
func signedContract() jcs.Value {
	a, payload, err := manifest.SignManifest(contract(), manifest.Requester, annAgent, noon)
	b, _, err2 := manifest.SignManifest(contract(), manifest.Worker, benOwner, noon)
	if err != nil || err2 != nil {
		panic(err)
	}
	return must(manifest.Assemble(payload, &a, &b))
}

// signedOpen is an open proposal, signed by its one side.
func signedOpen() jcs.Value {
	a, payload, err := manifest.SignManifest(openDraft(), manifest.Requester, annAgent, noon)
	if err != nil {
		panic(err)
	}
	return must(manifest.Assemble(payload, &a, nil))
}

func certificate(owner, agent signing.Signer, serial int64) *manifest.AgentCertificate {
	return &manifest.AgentCertificate{Type: "sealbridge/agent-certificate", ProtocolVersion: manifest.ProtocolVersion,
		OwnerDid: owner.DID(), AgentDid: agent.DID(), Serial: serial, IssuedAt: later(-time.Hour), ExpiresAt: later(30 * day),
		DisplayName: "Kite Studio", Relay: manifest.RelayRef{Endpoint: "wss://relay.example.org", Did: relayDID}, NextKey: digestOf("next")}
}

func boxKey(owner, agent signing.Signer, cert signing.Digest, seq int64, key string) *manifest.BoxKey {
	return &manifest.BoxKey{Type: "sealbridge/box-key", ProtocolVersion: manifest.ProtocolVersion, AgentDid: agent.DID(), OwnerDid: owner.DID(),
		CertificateDigest: cert, Seq: seq, Kid: digestOf(key), Key: base64.RawURLEncoding.EncodeToString([]byte(key)),
		NotBefore: later(-time.Hour), NotAfter: later(14 * day)}
}

func meters() manifest.Meters {
	return manifest.Meters{InputTokens: 1, OutputTokens: 2, ToolInvocations: 3, WallClockSeconds: 4}
}

func usage() manifest.Usage {
	return manifest.Usage{Meters: meters(), Source: manifest.Sources{InputTokens: "metered", OutputTokens: "claimed", ToolInvocations: "metered", WallClockSeconds: "metered"}}
}

func decision() *manifest.GateDecision {
	return &manifest.GateDecision{Type: "sealbridge/gate-decision", ProtocolVersion: manifest.ProtocolVersion, AskDigest: digestOf("ask"),
		AskID: must(manifest.ParseAskID("apr_01JDZ8M4")), Gate: manifest.ContractGate, TaskID: taskID, ContractDigest: digestOf("contract"),
		SubjectDigest: digestOf("subject"), OwnerDid: annOwner.DID(), Verdict: "allow", Lasts: "once", Presence: "passphrase", DecidedAt: later(0)}
}

// standing covers simple, Ann's side.
func standing() manifest.Standing {
	m := simple()
	return manifest.Standing{Gate: manifest.ContractGate, Side: manifest.Requester, Contact: benOwner.DID(), Agent: "claude", TaskType: "report", Each: m.Budget.Limits(), Total: m.Budget.Limits(),
		Files: 1, Bytes: 12, Seconds: 8 * 3600, Retries: 1, Mode: "hybrid", Over: m.Budget.OnOverrun, Receipt: m.Verification.RequireUsageReceipt, Attest: m.Verification.RequireExecutionAttestation, Gates: []manifest.Gate{manifest.ContractGate}, Level: "subprocess_restricted", Scope: "ephemeral_workspace_only",
		Model: "any", Uses: 5, From: later(0), Until: later(7 * day)}
}

func introduced() *manifest.Introduction {
	c := must(manifest.Sign(certificate(annOwner, annAgent, 1), annOwner, noon))
	return &manifest.Introduction{Certificate: c.Wire(), BoxKey: signedWire(boxKey(annOwner, annAgent, c.Digest(), 1, "key"), annAgent)}
}

// pass is the one that goes with contract, were it a root.
func pass() *manifest.DelegationPass {
	nonce := base64.RawURLEncoding.EncodeToString(make([]byte, 16))
	return &manifest.DelegationPass{Type: "sealbridge/delegation-pass", ProtocolVersion: manifest.ProtocolVersion, TaskID: taskID, ManifestDigest: digestOf("m"),
		AgentDid: annAgent.DID(), Audience: benAgent.DID(), Bounds: manifest.BoundsOf(contract()), Tokens: []signing.Digest{digestOf("t")}, Nonce: nonce,
		Owners: []signing.Digest{manifest.OwnerMark(nonce, annOwner.DID()), manifest.OwnerMark(nonce, benOwner.DID())}, At: later(0)}
}

// part is a child of contract.
func part() jcs.Value {
	m := contract()
	m.ParentTaskID, m.TaskID = ptr(taskID), must(manifest.ParseTaskID("task_part_0001"))
	return must(jcs.Encode(m))
}

// simple is a contract that a standing yes can cover: no grant, no host, handed on to nobody.
func simple() manifest.TaskManifest {
	m := contract()
	m.ParentTaskID, m.Budget.SettlementExtension, m.Budget.CostBearer = nil, jcs.Value{}, "worker_byok"
	m.Permissions = manifest.Permissions{GrantedCapabilities: []manifest.Grant{}}
	m.SandboxPolicy.NetworkAccess, m.SandboxPolicy.AllowedHosts = "none", nil
	return m
}

func receipt() *manifest.UsageReceipt {
	return &manifest.UsageReceipt{Type: "sealbridge/usage-receipt", ProtocolVersion: manifest.ProtocolVersion, TaskID: taskID, ManifestDigest: digestOf("m"),
		Contract: digestOf("c"), AgentDid: benAgent.DID(), Revision: 1, Limits: meters(), Usage: usage(), Children: []signing.Digest{digestOf("child")},
		Missing: []string{"a child"}, At: later(0)}
}

func report() manifest.Report {
	return manifest.Report{Delivery: digestOf("d"), Contract: digestOf("c"), Mode: "hybrid", Verdict: "pass", At: later(0),
		Checks: []manifest.CheckResult{{Check: "chk_schema", Kind: "json_schema", Result: "pass", Text: "fits"},
			{Check: "chk_test", Kind: "deterministic_command", Result: "fail", Run: &manifest.CheckRun{Exit: 1, Millis: 12, Output: digestOf("out"), Box: manifest.Isolation{Level: "wasm", Enforced: "gateway"}}}}}
}

// fixture is a good document and the key that signs it.
type fixture struct {
	name string
	doc  manifest.Document
	by   signing.Signer
}

// bodies has at least one good body of every kind, optional members present.
func bodies() []manifest.Fact {
	block, payload, err := manifest.SignManifest(contract(), manifest.Requester, annAgent, noon)
	if err != nil {
		panic(err)
	}
	workers, _, err := manifest.SignManifest(contract(), manifest.Worker, benAgent, noon)
	if err != nil {
		panic(err)
	}
	yes := ptr(signedWire(decision(), annOwner))
	ever := decision()
	ever.Lasts, ever.SubjectDigest = "standing", standing().Subject()
	always := ptr(signedWire(ever, annOwner))
	return []manifest.Fact{
		manifest.Proposed{Manifest: payload, Signature: block, Decision: always, Standing: &manifest.StandingUse{Grant: standing(), Use: 2}},
		manifest.Accepted{Signature: workers, Decision: always, Isolation: manifest.Isolation{Level: "wasm", Enforced: "gateway"}, Model: "none", Providers: []string{"p"},
			Standing: &manifest.StandingUse{Grant: standing(), Use: 5}},
		manifest.Proposed{Manifest: payload, Signature: block, Decision: yes, Group: manifest.Race, Passes: []jcs.Value{signedWire(pass(), annAgent)}},
		manifest.Accepted{Signature: workers, Decision: yes, Isolation: manifest.Isolation{Level: "wasm", Enforced: "gateway"}, Model: "door", Providers: []string{"p"}},
		manifest.Declined{Reason: "quota", Text: "too much", Counter: &payload},
		manifest.Granted{Tokens: []jcs.Value{canonical(`{"type":"sealbridge/capability-token","signature":{}}`)}},
		manifest.Granted{Tokens: []jcs.Value{toolCall().Links[0]}, Above: []jcs.Value{signedWire(grantedToken(), annAgent)}, Issuer: introduced()},
		manifest.Started{},
		manifest.Progressed{Checkpoint: "half", Usage: usage(), Waiting: "nobody"},
		manifest.Progressed{Usage: usage(), Waiting: "nobody", Opens: &manifest.Opens{Host: "api.example.org", Decision: yes}},
		manifest.Delegated{Child: digestOf("child"), Reserved: meters(), Answer: digestOf("yes"), Decision: yes, Worker: introduced()},
		manifest.Asked{Contract: digestOf("c"), Decision: yes, Amendment: &manifest.Amendment{Budget: ptr(meters()), Deadline: ptr(later(day)), MaxRetries: ptr(int64(2)),
			Withdraw: []manifest.CapabilityID{capability("cap_survey_read")}}},
		manifest.Asked{Contract: digestOf("c"), Child: &manifest.Child{Manifest: part(), Pass: ptr(signedWire(pass(), annAgent))}},
		manifest.Answered{Ask: digestOf("a"), Yes: true, Decision: yes, Reason: "quota"},
		manifest.Delivered{Usage: usage(), Delivery: manifest.Delivery{Contract: digestOf("c"), Revision: 1, Output: canonical(`{"regions":[1.5]}`),
			Artifacts: []manifest.ArtifactRef{{Name: "revenue.csv", Digest: digestOf("csv"), MediaType: "text/csv", SizeBytes: 9}},
			Evidence:  []manifest.Evidence{{Criterion: must(manifest.ParseCriterionID("ac_counts")), Text: "see the file"}},
			Receipt:   ptr(signedWire(receipt(), benAgent)), Attestation: &manifest.Attestation{Runner: "exec", Isolation: manifest.Isolation{Level: "wasm", Enforced: "claimed"},
				Enforces: []string{"network"}, Image: ptr(digestOf("image")), Exit: 0, WallClockSeconds: 5,
				Reached: []manifest.Reached{{Host: "api.example.org", Port: 443, Addresses: []string{"2606:2800:21f::1"}, Connections: 2, Sent: 100, Received: 2000}}}}},
		manifest.Rejected{Delivery: digestOf("d"), Report: report(), Again: true, Text: "no"},
		manifest.Completed{Delivery: digestOf("d"), Report: report(), Decision: yes},
		manifest.Failed{Reason: "internal", Text: "no", Usage: usage()},
		manifest.Cancelled{Reason: "changed my mind"},
		manifest.TimedOut{},
		manifest.Stopped{Usage: usage()},
		manifest.Disputed{Claim: "forked", Evidence: []signing.Digest{digestOf("e")}, Enclosed: []jcs.Value{canonical(`{"type":"sealbridge/event","signature":{}}`)}},
	}
}

func event(f manifest.Fact) (*manifest.Event, signing.Signer) {
	_, payload, _ := manifest.SignManifest(contract(), manifest.Requester, annAgent, noon)
	e := &manifest.Event{Type: "sealbridge/event", ProtocolVersion: manifest.ProtocolVersion, TaskID: taskID, ManifestDigest: signing.DigestOf(payload.Bytes()),
		Author: annAgent.DID(), Seq: 2, Prev: ptr(digestOf("before")), Seen: ptr(digestOf("theirs")), At: later(0), Body: manifest.Body{Fact: f}}
	if f.Kind() == manifest.KindProposed {
		e.Seq, e.Prev, e.Seen = 1, nil, nil
	}
	if slices.Contains([]manifest.Kind{manifest.KindAccepted, manifest.KindDelivered}, f.Kind()) {
		e.Author = benAgent.DID()
		return e, benAgent
	}
	return e, annAgent
}

func signedWire(d manifest.Document, by signing.Signer) jcs.Value {
	return must(manifest.Sign(d, by, noon)).Wire()
}

// fixtures has a good document of every type with one signature, and of every kind of event.
func fixtures() []fixture {
	cert := must(manifest.Sign(certificate(annOwner, annAgent, 1), annOwner, noon))
	inv := must(manifest.ParseInviteID("inv_01JDZ8M4"))
	secret := base64.RawURLEncoding.EncodeToString(make([]byte, 16))
	version := manifest.ProtocolVersion
	out := []fixture{
		{"agent-certificate", certificate(annOwner, annAgent, 1), annOwner},
		{"box-key", boxKey(annOwner, annAgent, cert.Digest(), 1, "key"), annAgent},
		{"revocation", &manifest.Revocation{Type: "sealbridge/revocation", ProtocolVersion: version, OwnerDid: annOwner.DID(), Target: "agent-certificate",
			TargetDigest: cert.Digest(), Seq: 1, Reason: "lost", Stands: []manifest.Stand{{TaskID: taskID, ManifestDigest: digestOf("m"), Seq: 3, Digest: digestOf("e")}}, At: later(0)}, annOwner},
		{"invite", &manifest.Invite{Type: "sealbridge/invite", ProtocolVersion: version, InviteID: inv, OwnerDid: annOwner.DID(),
			Relay: manifest.RelayRef{Endpoint: "wss://r", Did: relayDID}, Secret: secret, Ticket: secret, ExpiresAt: later(7 * day), NextKey: digestOf("next")}, annOwner},
		{"contact-request", contactRequest(benOwner, benAgent, secret, inv), benOwner},
		{"acknowledgement", &manifest.Acknowledgement{Type: "sealbridge/acknowledgement", ProtocolVersion: version, To: benAgent.DID(),
			Task: &manifest.Heads{TaskID: taskID, ManifestDigest: digestOf("m"), Yours: &manifest.Head{Seq: 1, Digest: digestOf("e")}}, Documents: []signing.Digest{digestOf("x")},
			At: later(0), Revocations: manifest.RevocationMark{Seq: 0, At: later(0)}}, annAgent},
		{"refusal", &manifest.Refusal{Type: "sealbridge/refusal", ProtocolVersion: version, To: benAgent.DID(), Digest: digestOf("x"), Reason: "quota", Path: "/a", Limit: "20",
			At: later(0), Revocations: manifest.RevocationMark{Seq: 4, At: later(0)}}, annAgent},
		{"history-request", &manifest.HistoryRequest{Type: "sealbridge/history-request", ProtocolVersion: version, To: benAgent.DID(), TaskID: taskID, ManifestDigest: digestOf("m"), Have: 3, At: later(0)}, annAgent},
		{"delegation-pass", pass(), annAgent},
		{"gate-decision", decision(), annOwner},
		{"policy-consent", &manifest.PolicyConsent{Type: "sealbridge/policy-consent", ProtocolVersion: version, OwnerDid: annOwner.DID(), AgentDid: annAgent.DID(),
			From: digestOf("old"), To: digestOf("new"), Difference: digestOf("lines"), Presence: "passphrase", DecidedAt: later(0)}, annOwner},
		{"approver-certificate", approver(annPhone, nil), annOwner},
		{"gate-decision with a passkey", approved(approver(annPhone, annPasskey), annPhone, annPasskey), annPhone},
		{"usage-receipt", receipt(), benAgent},
		{"artifact-keys", &manifest.ArtifactKeys{Type: "sealbridge/artifact-keys", ProtocolVersion: version, TaskID: taskID, ManifestDigest: digestOf("m"), AgentDid: annAgent.DID(),
			Files: []manifest.FileKey{{Digest: digestOf("f"), Transfer: "00112233445566778899aabbccddeeff", Key: base64.RawURLEncoding.EncodeToString(make([]byte, 32)), Chunks: 1}}, At: later(0)}, annAgent},
	}
	out = append(out, fixture{"claim", claim(false), benAgent}, fixture{"claim with terms", claim(true), benAgent})
	out = append(out, callFixtures()...)
	for _, f := range bodies() {
		e, by := event(f)
		out = append(out, fixture{"event " + string(f.Kind()), e, by})
	}
	return out
}

// openDraft is Ann's open proposal (M10).
func openDraft() manifest.TaskManifest {
	m := simple()
	m.Worker = nil
	return m
}

// claim is Ben's, with other terms or with those of the proposal.
func claim(other bool) *manifest.Claim {
	payload := must(jcs.Encode(openDraft()))
	c := &manifest.Claim{Type: "sealbridge/claim", ProtocolVersion: manifest.ProtocolVersion, To: annAgent.DID(), Digest: signing.DigestOf(payload.Bytes()), TaskID: taskID, At: later(0)}
	if other {
		m := openDraft()
		m.Budget.MaxInputTokens *= 2
		c.Draft = ptr(must(jcs.Encode(m)))
	}
	return c
}

func contactRequest(owner, agent signing.Signer, secret string, inv manifest.InviteID) *manifest.ContactRequest {
	cert := must(manifest.Sign(certificate(owner, agent, 1), owner, noon))
	return &manifest.ContactRequest{Type: "sealbridge/contact-request", ProtocolVersion: manifest.ProtocolVersion, InviteID: inv, OwnerDid: owner.DID(), To: annOwner.DID(),
		Proof:       manifest.ContactProof(secret, inv, annOwner.DID(), owner.DID()),
		Certificate: cert.Wire(), BoxKey: signedWire(boxKey(owner, agent, cert.Digest(), 1, "key"), agent), At: later(0)}
}

// everyWire is every good document, signed and canonical, by name.
func everyWire(tb testing.TB) map[string]jcs.Value {
	tb.Helper()
	out := map[string]jcs.Value{"task-manifest": signedContract(), "task-manifest open": signedOpen()}
	for _, f := range fixtures() {
		s, err := manifest.Sign(f.doc, f.by, noon)
		if err != nil {
			tb.Fatalf("%s: %v", f.name, err)
		}
		name := f.name
		if _, twice := out[name]; twice {
			name += " again"
		}
		out[name] = s.Wire()
	}
	return out
}

// approver certifies key for Ann's contract gate, with a passkey or as a device.
func approver(key signing.Signer, pass *passkeytest.Authenticator) *manifest.ApproverCertificate {
	c := &manifest.ApproverCertificate{Type: "sealbridge/approver-certificate", ProtocolVersion: manifest.ProtocolVersion, OwnerDid: annOwner.DID(), ApproverDid: key.DID(),
		Person: "usr_1", Gates: []manifest.Gate{manifest.ContractGate}, IssuedAt: later(0), ExpiresAt: later(30 * day)}
	if pass != nil {
		c.Credential = &pass.Credential
	}
	return c
}

// approved is a yes by a certified approver, with its passkey's assertion where the certificate has one.
func approved(c *manifest.ApproverCertificate, key signing.Signer, pass *passkeytest.Authenticator) *manifest.GateDecision {
	cert := must(manifest.Sign(c, annOwner, noon))
	d, digest := decision(), cert.Digest()
	d.CertificateDigest, d.Certificate, d.Presence = &digest, cert.Wire(), manifest.PresenceDevice
	if pass != nil {
		d.Presence = manifest.PresencePasskey
		a := pass.Assert(must(manifest.Challenge(*d)))
		d.Assertion = &a
	}
	return d
}

// grantedToken is Ann's root for Ben, and handedOn a link of Ben's below it for Eve.
func grantedToken() *manifest.CapabilityToken {
	return &manifest.CapabilityToken{Type: "sealbridge/capability-token", ProtocolVersion: manifest.ProtocolVersion, CapabilityID: capability("cap_survey_read"),
		TaskID: taskID, ManifestDigest: digestOf("m"), Issuer: annAgent.DID(), Audience: benAgent.DID(), Resource: must(manifest.ParseResource("mcp://kite-studio/survey/*")),
		AllowedTools: []string{"list_rows", "read_rows"}, ArgConstraints: canonical(`{"properties":{"path":{"pattern":"^[a-z./]*$","type":"string"}}}`),
		MaxInvocations: 20, ExpiresAt: later(7 * time.Hour), Depth: 1, MaxStaleness: 86400, Nonce: base64.RawURLEncoding.EncodeToString(make([]byte, 16))}
}

func handedOn(root signing.Digest) *manifest.CapabilityToken {
	t := grantedToken()
	t.Issuer, t.Audience, t.Parent, t.Depth = benAgent.DID(), eveAgent.DID(), &root, 0
	t.TaskID, t.ManifestDigest, t.MaxInvocations = must(manifest.ParseTaskID("task_child_0001")), digestOf("child"), 5
	return t
}

func toolCall() *manifest.ToolCall {
	root := must(manifest.Sign(grantedToken(), annAgent, noon))
	return &manifest.ToolCall{Type: "sealbridge/tool-call", ProtocolVersion: manifest.ProtocolVersion, CallID: must(manifest.ParseCallID("call_01JDZ8M4")), To: annAgent.DID(),
		Root: root.Digest(), Links: []jcs.Value{signedWire(handedOn(root.Digest()), benAgent)}, TaskID: must(manifest.ParseTaskID("task_child_0001")), Contract: digestOf("contract"),
		Tool: "read_rows", Resources: []manifest.Resource{must(manifest.ParseResource("mcp://kite-studio/survey/north.csv"))}, Arguments: canonical(`{"path":"north.csv"}`),
		At: later(0), ExpiresAt: later(15 * time.Minute)}
}

func callFixtures() []fixture {
	result := func(state manifest.CallState) *manifest.ToolResult {
		return &manifest.ToolResult{Type: "sealbridge/tool-result", ProtocolVersion: manifest.ProtocolVersion, To: eveAgent.DID(), Call: digestOf("call"), State: state,
			UsesLeft: 19, At: later(0), Revocations: manifest.RevocationMark{Seq: 2, At: later(0)}}
	}
	done, filed, refused := result(manifest.CallDone), result(manifest.CallDone), result(manifest.CallRefused)
	done.Defaults = canonical(`{"head":10}`)
	done.Result = canonical(`{"content":[{"text":"7 rows","type":"text"}]}`)
	filed.Artifact = &manifest.ArtifactRef{Name: "result.json", Digest: digestOf("big"), MediaType: "application/json", SizeBytes: 400000}
	refused.Denial = &manifest.Denial{Reason: "capability-denied", Rule: "C3", Link: 2, Path: "/arguments/path", Limit: "pattern"}
	root := must(manifest.Sign(grantedToken(), annAgent, noon))
	return []fixture{{"capability-token", grantedToken(), annAgent}, {"capability-token below", handedOn(root.Digest()), benAgent}, {"tool-call", toolCall(), eveAgent},
		{"tool-result", done, annAgent}, {"tool-result in a file", filed, annAgent}, {"tool-result refused", refused, annAgent},
		{"tool-result pending", result(manifest.CallPending), annAgent}, {"tool-result unknown", result(manifest.CallUnknown), annAgent}}
}
