package audit

import (
	"sealbridge/manifest"
	"sealbridge/signing"
)

// Report is what a replay came to. As JSON its members are a contract; the
// report is the same for any number of cores and any order of documents, but
// for the paths.
//
//	verified  whatever is there holds: digests, signatures, roles, rules, order
//	binding   nothing that a contract needs is absent
//	known     whose owner keys the auditor gave: all, some, none
type Report struct {
	File       string    `json:"file,omitempty"`
	Verified   bool      `json:"verified"`
	Binding    bool      `json:"binding"`
	Known      string    `json:"known"`
	Kind       string    `json:"kind"` // bundle, documents, or a document's type without its prefix
	Documents  int       `json:"documents"`
	Signatures int       `json:"signatures"` // that hold
	Task       *Task     `json:"task"`
	Parties    []Party   `json:"parties"`
	Findings   []Finding `json:"findings"`
	Proven     []Entry   `json:"proven"`
	Claimed    []Entry   `json:"claimed"`
	Missing    []Entry   `json:"missing"`
	Limits     []Limit   `json:"limits"`
	Timeline   []Moment  `json:"timeline"`
	Facts      Facts     `json:"facts"`
}

// Task names what the documents are about.
type Task struct {
	TaskID         manifest.TaskID `json:"taskId"`
	Title          string          `json:"title"` // escaped: a stranger's text (M8)
	Outcome        string          `json:"outcome"`
	State          string          `json:"state"`
	ManifestDigest signing.Digest  `json:"manifestDigest"`
	Heads          Heads           `json:"heads"`
}

// Heads are the ends of the chains that count; null for an empty one.
type Heads struct {
	Requester *manifest.Head `json:"requester"`
	Worker    *manifest.Head `json:"worker"`
}

// Party is one side. Name is the auditor's where it knows the key, else the
// signer's own, escaped.
type Party struct {
	Role        manifest.Role `json:"role"`
	Name        string        `json:"name"`
	OwnerDid    signing.DID   `json:"ownerDid"`
	Fingerprint string        `json:"fingerprint"` // of the owner, to be read back by telephone (M8)
	AgentDid    signing.DID   `json:"agentDid"`
	Known       bool          `json:"known"`
	Learned     string        `json:"learned,omitempty"` // how, as the auditor noted
}

// Severity of a finding: an error means not verified, a gap not binding, a note nothing.
const (
	Wrong  = "error"
	Absent = "missing"
	Note   = "note"
)

// Finding is one thing that does not hold, or that was left out of account.
type Finding struct {
	Code     string `json:"code"` // of the list of spec/errors.md
	Path     string `json:"path"` // JSON pointer into the file
	Severity string `json:"severity"`
	Rule     string `json:"rule"`
	Message  string `json:"message"`
	Document string `json:"document"` // digest, or ""
}

// Entry is one thing that is proven, only claimed, or missing.
type Entry struct {
	What string `json:"what"`
	By   string `json:"by"`            // whose key, whose word, whose document
	Rule string `json:"rule"`          // that says so
	Path string `json:"path"`          // where in the file, or ""
	Ask  string `json:"ask,omitempty"` // of whom, for what
}

// Limit is one of the limits of claim (section 16).
type Limit struct {
	ID   string `json:"id"`
	Text string `json:"text"`
}

// Moment is one event that counts, for people; At is its author's claim.
type Moment struct {
	At     signing.Time   `json:"at"`
	By     manifest.Role  `json:"by"`
	Seq    int64          `json:"seq"`
	Kind   manifest.Kind  `json:"kind"`
	Digest signing.Digest `json:"digest"`
	Text   string         `json:"text,omitempty"` // ours
	Theirs string         `json:"theirs,omitempty"`
}

// Facts are what text output and receipts are made from.
type Facts struct {
	Asked      []manifest.ArtifactRef `json:"asked"`  // files that went to the worker
	Signed     []manifest.Role        `json:"signed"` // sides whose signature stands under the manifest
	Amendments []Amendment            `json:"amendments"`
	Approvals  []Approval             `json:"approvals"`
	Deliveries []Delivery             `json:"deliveries"`
	Checks     []manifest.CheckResult `json:"checks"`             // of the last report
	Commands   map[string]string      `json:"commands,omitempty"` // of checks that are programs of the requester's, by check id (M6)
	Verdict    string                 `json:"verdict,omitempty"`
	First      manifest.Meters        `json:"first"`  // limits of the manifest
	Limits     manifest.Meters        `json:"limits"` // in force
	Used       *manifest.Usage        `json:"used"`
	CostBearer string                 `json:"costBearer,omitempty"`
	Isolation  *manifest.Isolation    `json:"isolation"`
	Model      string                 `json:"model,omitempty"`
	Tools      []ToolUse              `json:"tools"`             // grants that were used
	Opened     []Opened               `json:"opened,omitempty"`  // hosts that the worker's side opened to its agent (X1)
	Reached    []manifest.Reached     `json:"reached,omitempty"` // hosts, as the last delivery attests
	Criteria   []Criterion            `json:"criteria"`          // of the contract, with what the last delivery shows for each
	Attested   *manifest.Attestation  `json:"attestation"`       // of the last delivery: what ran, by the worker's gateway's word
	Receipt    *UsageReceipt          `json:"receipt"`           // of the last delivery
	Endings    []Ending               `json:"endings"`
	Events     [2]int64               `json:"events"` // that count, requester's and worker's
	Custody    []Custody              `json:"custody"`
	From       signing.Time           `json:"from"` // first and last claimed times
	To         signing.Time           `json:"to"`
}

// Criterion is one of the contract's, and how many items of evidence the last
// delivery has for it (V1).
type Criterion struct {
	ID       manifest.CriterionID `json:"id"`
	Required bool                 `json:"required"`
	Evidence int                  `json:"evidence"`
}

// UsageReceipt is what the worker's agent signed over its figures (B7).
type UsageReceipt struct {
	Digest   signing.Digest   `json:"digest"`
	Complete bool             `json:"complete"`
	Children []signing.Digest `json:"children"` // receipts of those to whom a part was handed on
	Missing  []string         `json:"missing"`
}

type Amendment struct {
	Contract signing.Digest `json:"contract"` // in force with it
	By       manifest.Role  `json:"by"`       // who said the second yes
	Text     string         `json:"text"`
}

// Approval is one person's decision that counts.
type Approval struct {
	Gate     manifest.Gate  `json:"gate"`
	By       manifest.Role  `json:"by"`
	Presence string         `json:"presence"`
	Proven   bool           `json:"proven"`           // an assertion or a device's certificate is here; else presence is claimed (G10)
	Person   string         `json:"person,omitempty"` // an approver's, as the owner certified it; "" for the owner key
	Votes    int64          `json:"votes,omitempty"`  // yeses that are here, and how many the ask needed (G5); 0 where the ask is not shown
	Need     int64          `json:"need,omitempty"`
	At       signing.Time   `json:"at"`
	Decision signing.Digest `json:"decision"`
	Shown    bool           `json:"shown"` // the ask, with the text that was shown, is here
	On       manifest.Kind  `json:"on"`
	Standing *Standing      `json:"standing,omitempty"` // a yes that was given before, over a bounded grant (G6)
}

// Standing says which use of a standing yes an approval was, by the count of its owner's gateway.
type Standing struct {
	Use   int64        `json:"use"`
	Uses  int64        `json:"uses"`
	Until signing.Time `json:"until"`
}

type Delivery struct {
	Revision  int64                  `json:"revision"`
	Digest    signing.Digest         `json:"digest"`
	Output    signing.Digest         `json:"output"` // of the structured result's canonical bytes: a file with it is the result
	Artifacts []manifest.ArtifactRef `json:"artifacts"`
}

// Opened is a host, and whether its owner's decision stands beside it.
type Opened struct {
	Host     string       `json:"host"`
	At       signing.Time `json:"at"`
	Approved bool         `json:"approved"`
}

// ToolUse is a grant and the calls under the tokens that were made of it.
type ToolUse struct {
	CapabilityID manifest.CapabilityID `json:"capabilityId"`
	Used         int64                 `json:"used"` // answered, or unknown and charged
	Of           int64                 `json:"of"`
	Calls        []Call                `json:"calls"`
}

// Call is one call on a granted tool; By is the agent that called, Links how
// many hands its token went through.
type Call struct {
	Digest signing.Digest     `json:"digest"`
	Tool   string             `json:"tool"`
	By     signing.DID        `json:"by"`
	Links  int                `json:"links"`
	At     signing.Time       `json:"at"`
	State  manifest.CallState `json:"state"`
}

type Ending struct {
	Kind         manifest.Kind `json:"kind"`
	By           manifest.Role `json:"by"`
	Seq          int64         `json:"seq"`
	At           signing.Time  `json:"at"`
	Acknowledged bool          `json:"acknowledged"` // by the other side (R4a)
}

// Custody is what one relay signed for.
type Custody struct {
	RelayDid signing.DID  `json:"relayDid"`
	Receipts int          `json:"receipts"`
	From     signing.Time `json:"from"`
	To       signing.Time `json:"to"`
}
