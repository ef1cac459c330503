package gateway

import (
	"encoding/base64"
	"io"
	"time"

	"sealbridge/gateway/journal"
	"sealbridge/manifest"
	"sealbridge/manifest/task"
	"sealbridge/policy"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// tokenRow is a capability token that stands in a granted event: one of ours
// that we issued, or one that our agent may use (C2).
type tokenRow struct {
	Task  string      `json:"task"` // key of the task
	Wire  jcs.Value   `json:"wire"`
	Above []jcs.Value `json:"above,omitempty"` // what it stands below, the root first
	Off   string      `json:"off,omitempty"`   // why its issuer takes no call by it any more; only of ours
}

var (
	tokens = journal.NewTable[tokenRow]("token")  // by digest, grouped by task
	heard  = journal.NewTable[time.Time]("heard") // by owner: how old its newest word of "nothing newer" is (I7)
)

// token reads a row; it was opened when the event came.
func (t *turn) token(r tokenRow) (*manifest.CapabilityToken, signing.Digest, error) {
	s, err := manifest.OpenValue(r.Wire, t.g.keys)
	if err != nil {
		return nil, signing.Digest{}, err
	}
	k, ok := s.Document().(*manifest.CapabilityToken)
	if !ok {
		return nil, signing.Digest{}, spec.Refuse(spec.Internal, "", "no capability token")
	}
	return k, s.Digest(), nil
}

// ownGrants are the grants of a contract that we turn into tokens: of a task
// that we asked for and that was accepted, while they last.
func (t *turn) ownGrants(row taskRow) (out []manifest.Grant) {
	if row.Role != manifest.Requester || row.Task.Accepted() == nil || row.Task.Ended() || row.Task.Broken() || row.Recovery != "" || row.Breach != "" {
		return nil
	}
	switch row.Task.State() {
	case task.Accepted, task.Working, task.Delivered:
	default:
		return nil
	}
	m, _ := row.Task.Contract()
	for _, g := range m.Permissions.GrantedCapabilities {
		if t.now.Before(g.ExpiresAt.Time()) {
			out = append(out, g)
		}
	}
	return out
}

// owesTokens says whether a task waits for its tokens.
func (t *turn) owesTokens(row taskRow) (bool, error) {
	if len(t.ownGrants(row)) == 0 {
		return false, nil
	}
	n, err := tokens.Count(t.Tx, row.Key.String())
	return n == 0, err
}

// grant says granted: a root for every grant of the contract, to the worker's
// agent, no wider than the grant (C2).
func (t *turn) grant(key string) error {
	row, err := t.row(key)
	if err != nil {
		return err
	}
	if owes, err := t.owesTokens(row); err != nil || !owes {
		return err
	}
	said := manifest.Granted{}
	grants := t.ownGrants(row)
	if row.Parent != "" { // what is handed on comes from a token that we hold
		if said, err = t.handsTokens(row, grants); err != nil {
			return err
		}
		grants = nil
	}
	for _, g := range grants {
		var nonce [16]byte
		if _, err := io.ReadFull(t.g.Chance, nonce[:]); err != nil {
			return err
		}
		k, err := policy.Mint(row.Task, g.CapabilityID, nil, base64.RawURLEncoding.EncodeToString(nonce[:]))
		if err != nil {
			return err
		}
		v, err := manifest.Sign(k, t.g.Agent, t.now)
		if err != nil {
			return err
		}
		said.Tokens = append(said.Tokens, v.Wire())
	}
	_, err = t.say(&row, said)
	return err
}

// lostUses is why a home that was put back honours none of its tokens again (R4b).
const lostUses = "this gateway was in recovery: uses may have been lost"

// granted keeps the tokens of an event, on either side.
func (t *turn) granted(row taskRow, v manifest.Verified) error {
	e, ok := v.Document().(*manifest.Event)
	if !ok {
		return nil
	}
	f, ok := e.Body.Fact.(manifest.Granted)
	if !ok {
		return nil
	}
	off := ""
	if row.Role == manifest.Requester && row.Recovery != "" { // how often they were used nobody here knows
		off = lostUses
	}
	for _, h := range policy.Holdings(f) {
		n := h.Chain.Len()
		r := tokenRow{Task: row.Key.String(), Wire: h.Chain.Link(n).Wire(), Off: off}
		for i := 1; i < n; i++ {
			r.Above = append(r.Above, h.Chain.Link(i).Wire())
		}
		if err := tokens.Put(t.Tx, h.Chain.Digest().String(), row.Key.String(), r); err != nil {
			return err
		}
	}
	return nil
}

// hears keeps how fresh an owner's word of revocations is: a mark that names
// one which is not here says that something is on its way (I7).
func (t *turn) hears(owner signing.DID, m manifest.RevocationMark) error {
	if m.Seq != t.trust.Contacts[owner].Revocations {
		return nil
	}
	at := m.At.Time()
	if t.now.Before(at) {
		at = t.now
	}
	before, _, err := heard.Get(t.Tx, owner.String())
	if err != nil || !before.Before(at) {
		return err
	}
	return heard.Put(t.Tx, owner.String(), "", at)
}

// tokensWithin is how long a program waits for the tokens of its contract: they
// are said as soon as the other side hears of accepted, and without them it works all the same.
const tokensWithin = 10 * time.Second

// awaitsTokens says whether work should wait a moment for what was granted, and until when.
func (t *turn) awaitsTokens(row taskRow) (until time.Time, waits bool, err error) {
	m, _ := row.Task.Contract()
	accepted := row.Task.Accepted()
	if len(m.Permissions.GrantedCapabilities) == 0 || accepted == nil {
		return until, false, nil
	}
	n, err := tokens.Count(t.Tx, row.Key.String())
	until = accepted.At.Time().Add(tokensWithin)
	return until, n == 0 && t.now.Before(until), err
}
