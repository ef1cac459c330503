package gateway

import (
	"crypto/sha256"
	"encoding/json"
	"time"

	"sealbridge/gateway/journal"
	"sealbridge/manifest"
	"sealbridge/manifest/task"
	"sealbridge/policy"
	"sealbridge/policy/approval"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// Record kinds: what the journal keeps for ever.
const (
	recEvent    = "event"    // of a task: both chains
	recDocument = "document" // identity documents, by contact
	recAsk      = "ask"
	recDecision = "decision"
	recAck      = "ack"     // the other side's acknowledgements of a task
	recReceipt  = "receipt" // the relay's custody receipts
	recSidecar  = "sidecar" // of work and answers that came from another system: local for ever (J5)
	recNote     = "note"    // what a person did: confirm, block, cancel
	recOpen     = "open"    // open proposals and claims, which bind nobody (M10)
	recGroup    = "group"   // tasks of ours that belong together (P4), and who ended them
	recCall     = "call"    // tool-calls of a task, ours and theirs
	recResult   = "result"  // tool-results
	recPolicy   = "policy"  // a policy that came in force, with the owner's yes where it permits more
)

// Tables: what holds. They are rebuilt from records when their layout changes.
var (
	trusts   = journal.NewTable[manifest.Trust]("trust")
	tasks    = journal.NewTable[taskRow]("task")
	asks     = journal.NewTable[askRow]("ask")
	waiting  = journal.NewTable[string]("waiting") // open asks by id, with their task: what waits is counted without reading any
	counters = journal.NewTable[string]("counter") // tasks with a counter-proposal that nobody took up yet, by key, with their id
	dealings = journal.NewTable[dealingRow]("dealing")
	balances = journal.NewTable[balanceRow]("balance")
	outbox   = journal.NewTable[outRow]("out")
	invites  = journal.NewTable[inviteRow]("invite")
	replies  = journal.NewTable[replyRow]("reply") // refusals, so that a repetition gets the same one
	calls    = journal.NewTable[callRow]("call")   // what was asked for, by the caller's id or by subject (G8)
	mine     = journal.NewTable[struct{}]("mine")  // keys of the tasks of each agent, open and ended
	wishes   = journal.NewTable[Wish]("wish")      // contacts that agents asked for
	notes    = journal.NewTable[time.Time]("told") // when the owner was last told that something waits
)

// taskRow is one task as this gateway holds it.
type taskRow struct {
	Task     task.Task        `json:"task"`
	Key      manifest.TaskKey `json:"key"`
	Role     manifest.Role    `json:"role"`
	Peer     signing.DID      `json:"peer"` // owner of the other side
	Title    string           `json:"title"`
	Agent    string           `json:"agent"`             // of ours: who works, or who asked
	Proposal jcs.Value        `json:"proposal"`          // a manifest that waits for its gate; nothing of it left this gateway
	Passes   []jcs.Value      `json:"passes,omitempty"`  // that go with a proposal of ours (P2)
	Parent   string           `json:"parent,omitempty"`  // key of the task of which this one is a part
	Helper   string           `json:"helper,omitempty"`  // of a part: our agent that works on the task above and uses what comes of it
	Untaken  bool             `json:"untaken,omitempty"` // the other side refused the proposal
	Change   *changeRow       `json:"change"`            // an amendment that waits for its gate
	Refused  signing.Digest   `json:"refused"`           // the contract for which our owner wanted no more budget
	Dropped  string           `json:"dropped"`           // why a proposal was never said
	Files    []string         `json:"files"`             // paths that a person or an agent named
	Named    bool             `json:"named"`             // a person named them
	Claimed  bool             `json:"claimed"`           // the draft said that a claimed isolation is enough
	Chosen   []string         `json:"chosen"`            // what another system did not say and we chose (J6)

	Together manifest.GroupKind `json:"together,omitempty"` // others are asked for the same (P4)
	Group    string             `json:"group,omitempty"`    // of a task of ours: its group
	Same     signing.Digest     `json:"same,omitzero"`      // what the newest good delivery is compared by

	PeerHas       *manifest.Head     `json:"peerHas"`            // our newest event that the other side acknowledged
	PeerHead      *manifest.Head     `json:"peerHead"`           // its own newest, as it said
	Sent          []transferRow      `json:"sent"`               // sealed files of ours
	Keys          []manifest.FileKey `json:"keys"`               // of files of theirs
	Counter       *jcs.Value         `json:"counter,omitempty"`  // what the worker would accept instead, as its no carried it (G7)
	Answered      string             `json:"answered,omitempty"` // the task in which we took the counter-proposal up
	Here          map[string]bool    `json:"here"`               // digests of theirs that arrived and were checked
	Session       bool               `json:"session,omitempty"`  // the agent comes by itself: nothing is run
	Told          manifest.Meters    `json:"told,omitzero"`      // tokens that it claims for the run under way
	Runs          int64              `json:"runs"`
	Calls         int64              `json:"calls,omitempty"`   // to models, by the door
	RunAt         time.Time          `json:"runAt"`             // when the run under way began
	Still         stillRow           `json:"still,omitzero"`    // how long that run stood still
	Reached       []manifest.Reached `json:"reached,omitempty"` // hosts, by all runs that ended
	Report        *manifest.Report   `json:"report"`
	Printed       map[string]string  `json:"printed,omitempty"` // by the commands of the report, by check: for our owner alone
	Opened        bool               `json:"opened"`            // a person opened the quarantined files (G14)
	Released      bool               `json:"released"`          // result handed over
	Again         string             `json:"again"`             // why the last delivery was sent back
	Breach        string             `json:"breach"`            // the rule that the other side's event broke: no work is released on it
	Recovery      string             `json:"recovery"`          // R4b: why nothing is signed in this task until the peer returned our chain
	RecoveryUntil time.Time          `json:"recoveryUntil"`
	PeerAsked     time.Time          `json:"peerAsked"` // when the peer last said what it holds
	At            time.Time          `json:"at"`

	Answers []manifest.ArtifactRef `json:"answers,omitempty"` // of tools, that go as files
}

// transferRow is one sealed file on its way out: kept until acknowledged, never sealed twice under one key (R5).
type transferRow struct {
	Key      manifest.FileKey `json:"key"`
	Size     int64            `json:"size"`
	Revision int64            `json:"revision"` // 0 for inputs
	Up       bool             `json:"up"`       // every chunk is at the relay
}

type askRow struct {
	Ask      approval.Ask   `json:"ask"`
	Task     string         `json:"task"`           // key of the task
	Kind     manifest.Kind  `json:"kind"`           // what is said after a yes
	Call     string         `json:"call,omitempty"` // instead: the call of a tool of ours that a yes lets happen
	State    string         `json:"state"`
	Votes    []jcs.Value    `json:"votes,omitempty"` // yeses that are not enough yet (G5)
	Decision jcs.Value      `json:"decision"`
	Consent  policy.Consent `json:"consent"`
	Counter  *jcs.Value     `json:"counter,omitempty"` // of a no: the contract that we would accept (G7)
	Used     bool           `json:"used"`              // the yes was spent in the step of its act (G6)
	Why      string         `json:"why"`               // of a no: the person's words; of what was withdrawn: what took it away
	Rule     string         `json:"rule"`
	At       time.Time      `json:"at"`
	Closed   time.Time      `json:"closed"`
	Nudged   time.Time      `json:"nudged,omitzero"` // when the person was last told again, because an agent asked
}

type balanceRow struct {
	Account policy.Account `json:"account"`
	Balance policy.Balance `json:"balance"`
}

// outRow is a document of ours that is kept and sent again until it is acknowledged (R4).
type outRow struct {
	To     signing.DID `json:"to"` // owner
	Wire   jcs.Value   `json:"wire"`
	Ticket string      `json:"ticket"`
	Task   string      `json:"task"`
	Seq    int64       `json:"seq"` // of an event
}

type inviteRow struct {
	Invite manifest.Invite `json:"invite"`
	Wire   jcs.Value       `json:"wire"`
	Used   signing.DID     `json:"used"`
	Alarm  bool            `json:"alarm"` // a second good redemption came (K1)
}

type replyRow struct {
	To   signing.DID `json:"to"`
	Wire jcs.Value   `json:"wire"`
}

// turn is one turn with what every step of it needs.
type turn struct {
	*journal.Tx
	g     *Gateway
	rules Rules  // its Policy is the one in force in this turn
	law   lawRow // zero before the first start
	now   time.Time
	trust manifest.Trust
}

const self = "self"

// begin reads the clock, which never runs backwards (T4), and the trust.
func (t *turn) begin() error {
	t.now = t.g.Now().Round(0) // what is written down has no monotonic reading, so nothing compares by one
	if last := t.Newest(); last.After(t.now) {
		t.now = last
	}
	var ok bool
	var err error
	if t.trust, ok, err = trusts.Get(t.Tx, self); err == nil && !ok {
		t.trust = manifest.NewTrust(t.g.Owner)
	}
	if err != nil {
		return err
	}
	if t.law, ok, err = laws.Get(t.Tx, self); ok {
		t.rules.Policy = t.law.Policy
	}
	return err
}

func (t *turn) append(kind, key string, body []byte) error {
	_, err := t.Append(journal.Record{Kind: kind, Key: key, At: t.now, Body: body})
	return err
}

func (t *turn) note(key string, what map[string]string) error {
	b, err := json.Marshal(what)
	if err != nil {
		return err
	}
	return t.append(recNote, key, b)
}

func (t *turn) setTrust(next manifest.Trust) error {
	t.trust = next
	return trusts.Put(t.Tx, self, "", next)
}

func (t *turn) row(key string) (taskRow, error) {
	row, ok, err := tasks.Get(t.Tx, key)
	if err == nil && !ok {
		err = spec.Refuse(spec.NotFound, "", "task")
	}
	return row, err
}

// open and ended are the groups of the task table: a start looks only at what is open.
const (
	groupOpen  = "open"
	groupEnded = "ended"
)

func (t *turn) putRow(row taskRow) error {
	group := groupOpen
	if row.done(t.now) {
		group = groupEnded
	}
	if row.Parent != "" && row.Task.IsZero() && row.Dropped != "" { // its share comes back
		if err := t.owe(jobPart, row.Key.String(), nil); err != nil {
			return err
		}
	}
	if row.Role == manifest.Requester && row.Agent != "" || row.Session {
		if err := mine.Put(t.Tx, row.Key.String(), row.Agent+"/"+group, struct{}{}); err != nil {
			return err
		}
	}
	return tasks.Put(t.Tx, row.Key.String(), group, row)
}

// done says that nothing more is owed for the task.
func (r taskRow) done(now time.Time) bool {
	if r.Task.IsZero() {
		return r.Dropped != ""
	}
	if r.Task.Outcome(now) == "" {
		return false
	}
	mine := r.Task.Head(r.Role)
	heard := mine == nil || r.PeerHas != nil && r.PeerHas.Seq >= mine.Seq
	return heard && (r.Role == manifest.Worker || r.Released || r.Task.Outcome(now) != string(manifest.KindCompleted))
}

// ledger reads the accounts that a case needs.
func (t *turn) ledger(as []policy.Account) (policy.Ledger, error) {
	var l policy.Ledger
	for _, a := range as {
		row, ok, err := balances.Get(t.Tx, accountKey(a))
		if err != nil {
			return l, err
		}
		if ok {
			l = l.With(a, row.Balance)
		}
	}
	return l, nil
}

// move writes what a decision moved.
func (t *turn) move(l policy.Ledger, ms []policy.Move) error {
	if len(ms) == 0 {
		return nil
	}
	for _, m := range ms { // accounts that the decision did not name before
		if !l.Has(m.Account) {
			row, ok, err := balances.Get(t.Tx, accountKey(m.Account))
			if err != nil {
				return err
			}
			if ok {
				l = l.With(m.Account, row.Balance)
			}
		}
	}
	next, err := l.Apply(ms...)
	if err != nil {
		return err
	}
	for _, m := range ms {
		row := balanceRow{m.Account, next.Of(m.Account)}
		if err := balances.Put(t.Tx, accountKey(m.Account), string(m.Account.Kind), row); err != nil {
			return err
		}
	}
	return nil
}

func accountKey(a policy.Account) string { return a.String() }

// owe is a job from now on.
func (t *turn) owe(kind, key string, body any) error { return t.oweAt(kind, key, t.now, body) }

func (t *turn) oweAt(kind, key string, due time.Time, body any) error {
	var raw []byte
	if body != nil {
		var err error
		if raw, err = json.Marshal(body); err != nil {
			return err
		}
	}
	return t.Owe(journal.Job{Kind: kind, Key: key, Due: due, Body: raw})
}

// documentKey is how an outgoing document is called among the jobs: one and the
// same goes to several contacts, and each acknowledges its own.
func documentKey(d signing.Digest, to signing.DID) string { return d.String() + " " + to.String() }

// dropID is where an invite's blob waits at the relay: known to whoever has the secret.
func dropID(secret string) string {
	sum := sha256.Sum256([]byte("sealbridge/0.2.0/drop\x00" + secret))
	return hexOf(sum[:16])
}
