package manifest

import (
	"strconv"
	"time"

	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// ToolCall asks the gateway that issued a root to call one of its owner's
// tools (C4). It is signed by the audience of the last token. The tokens below
// the root stand in it whole, so that whoever has the call can judge it in any
// order of arrival; the root itself is at the gateway that issued it.
type ToolCall struct {
	Type            string         `json:"type" rule:"const=sealbridge/tool-call"`
	ProtocolVersion string         `json:"protocolVersion" rule:"const=0.2.0"`
	CallID          CallID         `json:"callId"`
	To              signing.DID    `json:"to"`                       // the enforcing agent: the root's issuer
	Root            signing.Digest `json:"root"`                     // of the root token
	Links           []SignedPart   `json:"links" rule:"items=0..15"` // the tokens below the root, in order
	TaskID          TaskID         `json:"taskId"`                   // of the caller's own task
	Contract        signing.Digest `json:"contract"`                 // in force there, as the caller sees it
	Tool            string         `json:"tool" rule:"len=1..128"`
	Resources       []Resource     `json:"resources" rule:"items=1..32,unique"` // as the caller understands the call; computed anew (C1a)
	Arguments       jcs.Value      `json:"arguments" rule:"object"`
	At              signing.Time   `json:"at"`
	ExpiresAt       signing.Time   `json:"expiresAt"` // ≤ 15 min after at
}

// maxCallTerm: a call that waits longer is asked for by nobody any more; a gate
// has its own time (C4).
const maxCallTerm = 15 * time.Minute

func (c *ToolCall) check() error {
	for i, r := range c.Resources {
		if r.Open() {
			return refuse("/resources/"+strconv.Itoa(i), "C1a: one resource, not all below it")
		}
	}
	if err := checkParts("/links", c.Links, "capability-token"); err != nil {
		return err
	}
	return within("/expiresAt", c.At, c.ExpiresAt, maxCallTerm, "C4: 15 minutes at most")
}

// CallState is what became of a call.
type CallState string

const (
	CallDone    CallState = "done"    // the tool was called and answered
	CallRefused CallState = "refused" // it was not called, and never will be
	CallPending CallState = "pending" // it waits for a person, or runs
	CallUnknown CallState = "unknown" // it may have been called; the use is charged
)

// ToolResult is the enforcing gateway's answer to one call (C5). It is taken
// only for an open call with that digest, and reaches an agent as untrusted (M9).
type ToolResult struct {
	Type            string         `json:"type" rule:"const=sealbridge/tool-result"`
	ProtocolVersion string         `json:"protocolVersion" rule:"const=0.2.0"`
	To              signing.DID    `json:"to"`   // the agent that called
	Call            signing.Digest `json:"call"` // of the tool-call
	State           CallState      `json:"state" rule:"enum=done|refused|pending|unknown"`
	Denial          *Denial        `json:"denial,omitempty"`               // exactly where refused
	Result          jcs.Value      `json:"result,omitempty" rule:"object"` // what the tool answered: this, or an artifact
	Artifact        *ArtifactRef   `json:"artifact,omitempty"`
	Defaults        jcs.Value      `json:"defaults,omitempty" rule:"object"` // arguments that the owner's tool table put in (C1a)
	UsesLeft        int64          `json:"usesLeft" rule:"num=0..10000"`     // of the root, over all that it was handed on to
	At              signing.Time   `json:"at"`
	Revocations     RevocationMark `json:"revocations"`
}

// Denial says which rule refused a call, at which link and for which value.
type Denial struct {
	Reason string `json:"reason" rule:"len=1..64"`
	Rule   string `json:"rule" rule:"len=1..16"`
	Link   int64  `json:"link" rule:"num=0..16"` // of the chain, the root is 1; 0: none of them
	Path   string `json:"path,omitempty" rule:"len=1..500"`
	Limit  string `json:"limit,omitempty" rule:"len=1..200"`
}

func (r *ToolResult) check() error {
	answered := 0
	if !r.Result.IsZero() {
		answered++
	}
	if r.Artifact != nil {
		answered++
		if err := CheckArtifactName(r.Artifact.Name); err != nil {
			return spec.At("/artifact/name", err)
		}
	}
	switch {
	case (r.State == CallRefused) != (r.Denial != nil):
		return refuse("/denial", "C5: exactly where refused")
	case r.State == CallDone && answered != 1:
		return refuse("/result", "C5: a result or an artifact")
	case r.State != CallDone && answered > 0:
		return refuse("/result", "C5: only of what was done")
	}
	return nil
}
