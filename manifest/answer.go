package manifest

import (
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/signing/passkey"
)

// SignedPart is a whole signed document inside another.
type SignedPart = jcs.Value

// Head names the newest event of one chain.
type Head struct {
	Seq    int64          `json:"seq" rule:"num=1..10000"`
	Digest signing.Digest `json:"digest"`
}

// RevocationMark is a signed "nothing newer": the sender's newest revocation and when it looked (I7).
type RevocationMark struct {
	Seq int64        `json:"seq" rule:"num=0..1000000000"`
	At  signing.Time `json:"at"`
}

// Heads are the two ends of a task's history as the sender holds them (R4).
type Heads struct {
	TaskID         TaskID         `json:"taskId"`
	ManifestDigest signing.Digest `json:"manifestDigest"`
	Yours          *Head          `json:"yours"` // your newest event that I have applied and written, or null
	Mine           *Head          `json:"mine"`  // my own newest, or null
}

// Acknowledgement means kept and durable, not agreed (R4). It is never answered.
// Either Task or Documents is there.
type Acknowledgement struct {
	Type            string           `json:"type" rule:"const=sealbridge/acknowledgement"`
	ProtocolVersion string           `json:"protocolVersion" rule:"const=0.2.0"`
	To              signing.DID      `json:"to"` // the agent whose documents are acknowledged
	Task            *Heads           `json:"task,omitempty"`
	Documents       []signing.Digest `json:"documents,omitempty" rule:"items=0..256"`
	At              signing.Time     `json:"at"`
	Revocations     RevocationMark   `json:"revocations"`
}

// Refusal stands in place of an acknowledgement for what the sender does not keep.
type Refusal struct {
	Type            string         `json:"type" rule:"const=sealbridge/refusal"`
	ProtocolVersion string         `json:"protocolVersion" rule:"const=0.2.0"`
	To              signing.DID    `json:"to"`
	Digest          signing.Digest `json:"digest"` // of the document refused
	Reason          string         `json:"reason" rule:"len=1..64"`
	Path            string         `json:"path,omitempty" rule:"len=1..500"`
	Limit           string         `json:"limit,omitempty" rule:"len=1..200"`
	At              signing.Time   `json:"at"`
	Revocations     RevocationMark `json:"revocations"`
}

// HistoryRequest asks for both chains of a task (R4b).
type HistoryRequest struct {
	Type            string         `json:"type" rule:"const=sealbridge/history-request"`
	ProtocolVersion string         `json:"protocolVersion" rule:"const=0.2.0"`
	To              signing.DID    `json:"to"`
	TaskID          TaskID         `json:"taskId"`
	ManifestDigest  signing.Digest `json:"manifestDigest"`
	Have            int64          `json:"have" rule:"num=0..10000"` // the sender's own chain: newest seq that it still holds
	At              signing.Time   `json:"at"`
}

// GateDecision is a person's yes or no to exactly one ask and subject (G2).
type GateDecision struct {
	Type              string          `json:"type" rule:"const=sealbridge/gate-decision"`
	ProtocolVersion   string          `json:"protocolVersion" rule:"const=0.2.0"`
	AskDigest         signing.Digest  `json:"askDigest"`
	AskID             AskID           `json:"askId"`
	Gate              Gate            `json:"gate" rule:"enum=GATE_CONTRACT_ACCEPT|GATE_EXTERNAL_SIDE_EFFECT|GATE_BUDGET_OVERRUN|GATE_SUB_DELEGATION|GATE_DELIVERY_ACCEPT"`
	TaskID            TaskID          `json:"taskId"`
	ContractDigest    signing.Digest  `json:"contractDigest"`
	SubjectDigest     signing.Digest  `json:"subjectDigest"`
	OwnerDid          signing.DID     `json:"ownerDid"`
	Verdict           string          `json:"verdict" rule:"enum=allow|deny"`
	Lasts             string          `json:"lasts" rule:"enum=once|standing"`
	Presence          string          `json:"presence" rule:"len=1..64"` // G10: passkey, device, passphrase, channel:NAME, none
	CertificateDigest *signing.Digest `json:"certificateDigest"`         // the approver's, or null for the owner
	DecidedAt         signing.Time    `json:"decidedAt"`

	// Beside an approver's digest stands its certificate, so that whoever has
	// the decision can judge it; the passkey signs all but its own assertion.
	Certificate jcs.Value          `json:"certificate,omitempty" rule:"object"`
	Assertion   *passkey.Assertion `json:"assertion,omitempty"`
}

// UsageReceipt is the worker's gateway's statement of what was used (B7).
type UsageReceipt struct {
	Type            string           `json:"type" rule:"const=sealbridge/usage-receipt"`
	ProtocolVersion string           `json:"protocolVersion" rule:"const=0.2.0"`
	TaskID          TaskID           `json:"taskId"`
	ManifestDigest  signing.Digest   `json:"manifestDigest"`
	Contract        signing.Digest   `json:"contract"`
	AgentDid        signing.DID      `json:"agentDid"`
	Revision        int64            `json:"revision" rule:"num=1..11"`
	Limits          Meters           `json:"limits"`
	Usage           Usage            `json:"usage"`
	Children        []signing.Digest `json:"children" rule:"items=0..50"`
	Complete        bool             `json:"complete"`
	Missing         []string         `json:"missing" rule:"items=0..50,each.len=1..200"`
	At              signing.Time     `json:"at"`
}

// ArtifactKeys open the sealed chunks of a task's files (R5). They stand in no chain and in no bundle.
type ArtifactKeys struct {
	Type            string         `json:"type" rule:"const=sealbridge/artifact-keys"`
	ProtocolVersion string         `json:"protocolVersion" rule:"const=0.2.0"`
	TaskID          TaskID         `json:"taskId"`
	ManifestDigest  signing.Digest `json:"manifestDigest"`
	AgentDid        signing.DID    `json:"agentDid"`
	Files           []FileKey      `json:"files" rule:"items=1..100"`
	At              signing.Time   `json:"at"`
}

type FileKey struct {
	Digest   signing.Digest `json:"digest"` // of the plaintext: names the artifact
	Transfer string         `json:"transfer" rule:"len=32..32"`
	Key      string         `json:"key" rule:"len=43..43"` // 256 bits, base64url
	Chunks   int64          `json:"chunks" rule:"num=1..16384"`
}
