package manifest

import (
	"sealbridge/signing"
	"sealbridge/signing/jcs"
)

// Event is one link of one side's history of one task (section 6). Its digest
// covers its signature (S8); the chains refer to each other by digest (H1).
type Event struct {
	Type            string          `json:"type" rule:"const=sealbridge/event"`
	ProtocolVersion string          `json:"protocolVersion" rule:"const=0.2.0"`
	TaskID          TaskID          `json:"taskId"`
	ManifestDigest  signing.Digest  `json:"manifestDigest"` // of the original manifest, for ever
	Author          signing.DID     `json:"author"`         // the task agent of one side
	Seq             int64           `json:"seq" rule:"num=1..10000"`
	Prev            *signing.Digest `json:"prev"` // the author's event before; null for seq 1
	Seen            *signing.Digest `json:"seen"` // the other side's newest event that the author had applied
	At              signing.Time    `json:"at"`   // the author's clock: a claim (T1)
	Body            Body            `json:"body"`
}

// Kind is the name of a body (the table of section 6).
type Kind string

const (
	KindProposed   Kind = "proposed"
	KindAccepted   Kind = "accepted"
	KindDeclined   Kind = "declined"
	KindGranted    Kind = "granted"
	KindStarted    Kind = "started"
	KindProgressed Kind = "progressed"
	KindDelegated  Kind = "delegated"
	KindAsked      Kind = "asked"
	KindAnswered   Kind = "answered"
	KindDelivered  Kind = "delivered"
	KindRejected   Kind = "rejected"
	KindCompleted  Kind = "completed"
	KindFailed     Kind = "failed"
	KindCancelled  Kind = "cancelled"
	KindTimedOut   Kind = "timed_out"
	KindStopped    Kind = "stopped"
	KindDisputed   Kind = "disputed"
)

// Kinds lists every kind in the order of the table.
func Kinds() []Kind {
	return []Kind{KindProposed, KindAccepted, KindDeclined, KindGranted, KindStarted, KindProgressed, KindDelegated,
		KindAsked, KindAnswered, KindDelivered, KindRejected, KindCompleted, KindFailed, KindCancelled, KindTimedOut,
		KindStopped, KindDisputed}
}

// Fact is what an event's body says: the sealed sum of the kinds.
type Fact interface{ Kind() Kind }

// Body is a Fact with its wire form: one object with a member kind.
type Body struct{ Fact Fact }

type (
	// Proposed opens a task: the contract, the requester's signature on it, and
	// its owner's decision where the contract names the gate.
	Proposed struct {
		Manifest  jcs.Value     `json:"manifest" rule:"object"`                  // payload: a TaskManifest without signatures
		Signature signing.Block `json:"signature"`                               // context task-manifest/requester
		Decision  *jcs.Value    `json:"decision"`                                // a signed gate-decision, or null
		Standing  *StandingUse  `json:"standing,omitempty"`                      // the grant, where the decision is a standing one (G6)
		Passes    []jcs.Value   `json:"passes,omitempty" rule:"items=1..5"`      // signed delegation-passes, from the root down (P2)
		Group     GroupKind     `json:"group,omitempty" rule:"enum=race|quorum"` // others were asked for the same (P4)
	}
	// Accepted makes it a contract in force.
	Accepted struct {
		Signature signing.Block `json:"signature"` // context task-manifest/worker
		Decision  *jcs.Value    `json:"decision"`
		Isolation Isolation     `json:"isolation"`
		Model     string        `json:"model" rule:"enum=door|own|none"` // X6
		Providers []string      `json:"providers" rule:"items=0..20,each.len=1..200"`
		Standing  *StandingUse  `json:"standing,omitempty"`
	}
	// Isolation is what the worker's gateway says it holds the agent in (X6).
	Isolation struct {
		Level    string `json:"level" rule:"enum=subprocess_restricted|oci_container|wasm|microvm"`
		Enforced string `json:"enforced" rule:"enum=gateway|claimed"`
	}
	// Declined is the worker's no.
	Declined struct {
		Reason  string     `json:"reason" rule:"len=1..64"`
		Text    string     `json:"text,omitempty" rule:"len=1..1000"`
		Counter *jcs.Value `json:"counter,omitempty"` // a manifest payload that the worker would accept (G7)
	}
	// Granted hands over tokens, and those that stand above them where they are no roots (C2).
	Granted struct {
		Tokens []jcs.Value   `json:"tokens" rule:"items=1..50"`
		Above  []jcs.Value   `json:"above,omitempty" rule:"items=1..50"` // each once
		Issuer *Introduction `json:"issuer,omitempty"`                   // of tokens that are no roots: whose tools they are (C7)
	}
	Started    struct{}
	Progressed struct {
		Checkpoint string `json:"checkpoint" rule:"len=0..2000"`
		Usage      Usage  `json:"usage"`
		Waiting    string `json:"waiting" rule:"enum=nobody|requester|worker"`
		Opens      *Opens `json:"opens,omitempty"`
	}
	// Opens is a host that the worker's agent may reach from this event on, for
	// this task (X1), with its owner's yes where that is required (G11).
	Opens struct {
		Host     string     `json:"host" rule:"len=1..253"` // as the contract spells it (M4)
		Decision *jcs.Value `json:"decision"`
	}
	Delegated struct {
		Child    signing.Digest `json:"child"`            // digest of the child manifest
		Reserved Meters         `json:"reserved"`         // the share taken from this contract's remainder (B3)
		Answer   signing.Digest `json:"answer"`           // the answered event that said yes
		Decision *jcs.Value     `json:"decision"`         // of the worker's owner, who decides second (G11)
		Worker   *Introduction  `json:"worker,omitempty"` // of a child with grants: who will call (C7)
	}
	// Asked asks the other owner for an amendment or for a child (H9). Exactly one of the two is there.
	Asked struct {
		Contract  signing.Digest `json:"contract"` // contract digest it builds on (H10)
		Amendment *Amendment     `json:"amendment,omitempty"`
		Child     *Child         `json:"child,omitempty"`
		Decision  *jcs.Value     `json:"decision"`
	}
	// Answered says yes or no to one ask, once.
	Answered struct {
		Ask      signing.Digest `json:"ask"` // digest of the asked event
		Yes      bool           `json:"yes"`
		Decision *jcs.Value     `json:"decision"`
		Reason   string         `json:"reason,omitempty" rule:"len=1..64"`
	}
	Delivered struct {
		Delivery Delivery `json:"delivery"`
		Usage    Usage    `json:"usage"`
	}
	Rejected struct {
		Delivery signing.Digest `json:"delivery"` // digest of the delivery document
		Report   Report         `json:"report"`
		Again    bool           `json:"again"` // true: the turn goes back; false: final
		Text     string         `json:"text,omitempty" rule:"len=1..2000"`
	}
	Completed struct {
		Delivery signing.Digest `json:"delivery"`
		Report   Report         `json:"report"`
		Decision *jcs.Value     `json:"decision"`
	}
	Failed struct {
		Reason string `json:"reason" rule:"len=1..64"`
		Text   string `json:"text,omitempty" rule:"len=1..2000"`
		Usage  Usage  `json:"usage"`
	}
	Cancelled struct {
		Reason string `json:"reason" rule:"len=1..1000"`
	}
	TimedOut struct{}
	Stopped  struct {
		Usage Usage `json:"usage"`
	}
	Disputed struct {
		Claim    string           `json:"claim" rule:"len=1..2000"`
		Evidence []signing.Digest `json:"evidence" rule:"items=0..50"`
		Enclosed []jcs.Value      `json:"enclosed" rule:"items=0..4"` // the documents that break a chain (H6)
	}
)

// GroupKind says how the tasks of a group belong together (P4); "" is a task that stands alone.
type GroupKind string

const (
	Race   GroupKind = "race"   // the first good delivery is taken
	Quorum GroupKind = "quorum" // several owners must deliver the same
)

// Amendment changes what H10 lets it change; what is absent stays.
type Amendment struct {
	Budget     *Meters        `json:"budget,omitempty"` // new limits, all four
	Deadline   *signing.Time  `json:"deadline,omitempty"`
	MaxRetries *int64         `json:"maxRetries,omitempty" rule:"num=0..10"`
	Withdraw   []CapabilityID `json:"withdraw,omitempty" rule:"items=0..50"`
}

// Usage is what was used so far, and who says so (B6).
type Usage struct {
	Meters
	Source Sources `json:"source"`
}

// Sources says for each meter whether the gateway saw it or was told.
type Sources struct {
	InputTokens      string `json:"inputTokens" rule:"enum=metered|claimed"`
	OutputTokens     string `json:"outputTokens" rule:"enum=metered|claimed"`
	ToolInvocations  string `json:"toolInvocations" rule:"enum=metered|claimed"`
	WallClockSeconds string `json:"wallClockSeconds" rule:"enum=metered|claimed"`
}

// Delivery is one revision of what the worker hands over (V1).
type Delivery struct {
	Contract    signing.Digest `json:"contract"`
	Revision    int64          `json:"revision" rule:"num=1..11"`
	Output      jcs.Value      `json:"output"`
	Artifacts   []ArtifactRef  `json:"artifacts" rule:"items=0..100"`
	Evidence    []Evidence     `json:"evidence" rule:"items=0..100"`
	Receipt     *jcs.Value     `json:"receipt"`     // a signed usage-receipt, or null
	Attestation *Attestation   `json:"attestation"` // or null
}

type Evidence struct {
	Criterion CriterionID `json:"criterion"`
	Text      string      `json:"text" rule:"len=1..2000"`
}

// Attestation is the worker's gateway's word on what ran (X6, L6).
type Attestation struct {
	Runner           string          `json:"runner" rule:"len=1..64"`
	Isolation        Isolation       `json:"isolation"`
	Enforces         []string        `json:"enforces" rule:"items=0..30,each.len=1..100"`
	Image            *signing.Digest `json:"image"` // of the program, module or image that ran, or null
	Exit             int64           `json:"exit"`
	WallClockSeconds int64           `json:"wallClockSeconds" rule:"num=0..604800"`
	Reached          []Reached       `json:"reached,omitempty" rule:"items=1..500"`
}

// Reached is what the agent had to do with one host and port, all runs of the
// task together. What was said inside the connections is not in it.
type Reached struct {
	Host        string   `json:"host" rule:"len=1..253"` // as the contract spells it
	Port        int64    `json:"port" rule:"num=1..65535"`
	Addresses   []string `json:"addresses" rule:"items=1..8,unique,each.len=2..39"` // that were connected to; the first eight
	Connections int64    `json:"connections" rule:"num=1..9007199254740991"`
	Sent        int64    `json:"sent" rule:"num=0..9007199254740991"`     // bytes, to the host
	Received    int64    `json:"received" rule:"num=0..9007199254740991"` // and from it
}

// Report is what the requester's gateway found when it checked a delivery (V2).
type Report struct {
	Delivery signing.Digest `json:"delivery"`
	Contract signing.Digest `json:"contract"`
	Mode     string         `json:"mode" rule:"enum=schema_only|automated_checks|human_in_the_loop|hybrid"`
	Checks   []CheckResult  `json:"checks" rule:"items=0..40"`
	Verdict  string         `json:"verdict" rule:"enum=pass|fail"`
	At       signing.Time   `json:"at"`
}

type CheckResult struct {
	Check  string    `json:"check" rule:"len=1..64"` // a checkId, or digests, names, schema, coverage
	Kind   string    `json:"kind" rule:"len=1..64"`
	Result string    `json:"result" rule:"enum=pass|fail|not_evaluated"`
	Text   string    `json:"text,omitempty" rule:"len=1..500"`
	Run    *CheckRun `json:"run,omitempty"` // of a deterministic_command
}
