package workload

import (
	"crypto/ed25519"
	"encoding/binary"
	"errors"
	"strings"
	"time"

	"sealbridge/manifest"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// Keys makes keys from numbers, the same at each run.
func Keys(n int) (seed [4]signing.Signer) {
	for i := range seed {
		var s [32]byte
		binary.LittleEndian.PutUint64(s[:], uint64(n))
		s[8], s[9] = byte(i), 9
		seed[i] = signing.NewKey(s)
	}
	return seed
}

// Contract is a signed contract of 5 KiB between two owners. Its keys are
// those of n; serial is another contract of the same keys.
func Contract(n, serial int) ([]byte, error) {
	keys := Keys(n)
	m, err := contract(serial)
	if err != nil {
		return nil, err
	}
	m.Requester.OwnerDid, m.Requester.AgentDid = keys[0].DID(), keys[1].DID()
	m.Worker.OwnerDid, m.Worker.AgentDid = keys[2].DID(), keys[3].DID()
	a, payload, err := manifest.SignManifest(m, manifest.Requester, keys[1], noon)
	if err != nil {
		return nil, err
	}
	b, _, err := manifest.SignManifest(m, manifest.Worker, keys[3], noon)
	if err != nil {
		return nil, err
	}
	v, err := manifest.Assemble(payload, &a, &b)
	return v.Bytes(), err
}

// Contracts are as many, each by keys of its own or, where keys is not 0, by so many pairs of owners in turn.
func Contracts(n, keys int) (wires [][]byte, err error) {
	wires = make([][]byte, n)
	for i := range wires {
		owners := i
		if keys > 0 {
			owners = i % keys
		}
		if wires[i], err = Contract(owners, i); err != nil {
			return nil, err
		}
	}
	return wires, nil
}

// contract has every optional part of a manifest.
func contract(serial int) (m manifest.TaskManifest, err error) {
	id := func(prefix string, n int) string {
		const letters = "0123456789abcdefghjkmnpqrstvwxyz"
		out := []byte(prefix)
		for range 10 {
			out, n = append(out, letters[n%32]), n/32
		}
		return string(out)
	}
	object, err := jcs.Parse([]byte(`{"type":"object"}`))
	if err != nil {
		return m, err
	}
	later := func(d time.Duration) signing.Time { return signing.TimeOf(noon.Add(d)) }
	no, zero := false, int64(0)
	m = manifest.TaskManifest{
		ProtocolVersion: manifest.ProtocolVersion, CreatedAt: later(0), Deadline: later(8 * time.Hour),
		Requester: manifest.Party{DisplayName: "Kite Studio", RelayEndpoint: "wss://relay.example.org/a"}, Worker: &manifest.Party{DisplayName: "Lark Data"},
		Task: manifest.Work{SkillID: "survey", TaskType: "report", Title: "Summarise the spring survey", Description: strings.Repeat("Group the answers by region. ", 83),
			AcceptanceCriteria: []manifest.Criterion{{Description: "Every region has a count.", Required: true}}},
		IO: manifest.IO{InputSchema: object, OutputSchema: object,
			InputArtifacts: []manifest.ArtifactRef{{Name: "data/input.json", Digest: signing.DigestOf([]byte("in")), MediaType: "application/json", SizeBytes: 12}}},
		Verification: manifest.Verification{Mode: "hybrid", RequireUsageReceipt: true, MaxRetries: 1,
			Checks: []manifest.Check{{Kind: "json_schema", Target: "output", ExpectedExitCode: &zero}}},
		Budget: manifest.Budget{CostBearer: "worker_byok", MaxInputTokens: 200000, MaxOutputTokens: 20000, MaxToolInvocations: 50,
			MaxWallClockSeconds: 3600, OnOverrun: "hard_stop", SettlementExtension: object},
		Permissions: manifest.Permissions{MaxDelegationDepth: 1, GrantedCapabilities: []manifest.Grant{{
			Resource: "mcp://kite-studio/survey/*", AllowedTools: []string{"read_rows"}, ArgConstraints: object, MaxInvocations: 20, ExpiresAt: later(7 * time.Hour)}}},
		SandboxPolicy: manifest.SandboxPolicy{AllowSubprocessFallback: &no, IsolationLevel: "subprocess_restricted", NetworkAccess: "allowlist_only",
			AllowedHosts: []string{"api.example.org"}, FilesystemScope: "ephemeral_workspace_only"},
		HITLPolicy: manifest.HITLPolicy{RequiredGates: []manifest.Gate{manifest.ContractGate, manifest.DeliveryGate}},
	}
	parent := manifest.TaskID{}
	m.ParentTaskID = &parent
	return m, errors.Join(m.TaskID.ReadText(id("task_", serial)), parent.ReadText("task_parent_0001"), m.Task.AcceptanceCriteria[0].ID.ReadText("ac_counts"),
		m.Verification.Checks[0].CheckID.ReadText("chk_schema"), m.Permissions.GrantedCapabilities[0].CapabilityID.ReadText("cap_survey_read"))
}

// OpenEach opens wires in turn: everything from bytes to a signed contract (D2).
func OpenEach(wires [][]byte, k *signing.Keys) Work {
	i := 0
	return func() error {
		_, err := manifest.Open(wires[i%len(wires)], k)
		i++
		return err
	}
}

// Raw is the yardstick of a contract: two plain verifications of its bytes.
func Raw(wire []byte) Work {
	priv := ed25519.NewKeyFromSeed(make([]byte, 32))
	pub, sig := priv.Public().(ed25519.PublicKey), ed25519.Sign(priv, wire)
	return func() error {
		for range 2 { // one for each side
			if !ed25519.Verify(pub, wire, sig) {
				return errors.New("a good signature does not hold")
			}
		}
		return nil
	}
}
