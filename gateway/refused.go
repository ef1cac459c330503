package gateway

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"sealbridge/gateway/journal"
	"sealbridge/manifest"
	"sealbridge/policy"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// denials are what was refused, for the owner to see why (E1): in groups of a
// task's key, and of "" for what belongs to no task. They explain and prove
// nothing; the oldest give way.
var denials = journal.NewTable[Refusal]("denial")

const (
	maxDenials     = 20  // of one task: what a person reads of one piece of work
	maxFreeDenials = 100 // of no task: proposals that were never made, documents that were not kept
)

// Refusal is one no: whose it was, of what, by which rule, and which values were compared.
type Refusal struct {
	Task  string      `json:"taskId,omitempty"`
	Call  string      `json:"callId,omitempty"`
	With  signing.DID `json:"withDid,omitzero"` // owner of the other side
	Name  string      `json:"with,omitempty"`   // what we call it
	Title string      `json:"title,omitempty"`  // of a proposal that was never made
	Agent string      `json:"agent,omitempty"`  // of ours that wanted it
	By    string      `json:"by"`               // law, rules, person, time, check, or contact
	What  string      `json:"what"`             // proposed, accepted, … or the kind of a document
	Word  spec.Reason `json:"code"`
	Rule  string      `json:"rule,omitempty"`  // number of the law, or the name of the owner's rule
	Where string      `json:"where,omitempty"` // where the owner's rule stands: policy.yaml:14
	Path  string      `json:"path,omitempty"`
	Limit string      `json:"limit,omitempty"`
	Have  string      `json:"have,omitempty"` // the value that was compared
	Most  string      `json:"most,omitempty"` // and what it was held against
	Link  int64       `json:"link,omitempty"` // of a chain of tokens, from 1, the root
	Words string      `json:"words,omitempty"`
	Times int64       `json:"times,omitempty"` // the same no more than once
	At    time.Time   `json:"at"`
}

// Whose a refusal was.
const (
	byLaw     = "law"     // the protocol: the same at every gateway
	byRules   = "rules"   // the owner's policy
	byPerson  = "person"  // our owner said no
	byTime    = "time"    // nobody answered in time
	byCheck   = "check"   // our checks of a delivery
	byContact = "contact" // the other side
)

// refusalError carries what there is to keep of a no through an error. It has
// no text of its own: what may leave is in the spec.Error around it.
type refusalError struct {
	group string
	kept  Refusal
}

func (e *refusalError) Error() string { return "rule " + e.kept.Rule }

// refusing is a denial of what our own side would say, as people and agents see it.
func (t *turn) refusing(row *taskRow, c policy.Case, d policy.Decision) error {
	err := t.denied(d)
	var e *spec.Error
	if !errors.As(err, &e) {
		return err
	}
	r := Refusal{Task: row.Key.ID.String(), With: row.Peer, Name: t.trust.Contacts[row.Peer].Name, Agent: row.Agent, By: byLaw, What: string(c.Event.Body.Fact.Kind()), Word: d.Reason,
		Rule: d.Rule, Where: t.place(d), Path: d.Path, Limit: d.Limit, Have: d.Have, Most: d.Most, At: t.now}
	if d.Section != "" {
		r.By = byRules
	}
	group := row.Key.String()
	if row.Task.IsZero() { // the turn is taken back: there will be no such task
		group, r.Task, r.Title = "", "", manifest.Display(row.Title, 100)
	}
	out := *e
	out.Err = &refusalError{group, r}
	return &out
}

// keepFrom keeps what an error says of a refusal; in the turn that goes on.
func (t *turn) keepFrom(err error) error {
	var e *refusalError
	if !errors.As(err, &e) {
		return nil
	}
	return t.keepRefusal(e.group, e.kept)
}

// keepRefused keeps it in a turn of its own, after the one that was taken back.
func (g *Gateway) keepRefused(ctx context.Context, err error) {
	var e *refusalError
	if !errors.As(err, &e) {
		return
	}
	if err := g.Journal.Turn(ctx, func(tx *journal.Tx) error { return (&turn{Tx: tx, g: g}).keepRefusal(e.group, e.kept) }); err != nil && ctx.Err() == nil {
		g.Log.Warn("a refusal is not kept", "error", err)
	}
}

// keepRefusal writes one no down. The same again is counted, so that a loop fills nothing.
func (t *turn) keepRefusal(group string, r Refusal) error {
	key := group + " " + signing.DigestOf([]byte(strings.Join([]string{r.Call, r.With.String(), r.Agent, r.By, r.What, string(r.Word), r.Rule, r.Path, r.Limit, r.Words}, "\x00"))).String()
	old, there, err := denials.Get(t.Tx, key)
	if err != nil {
		return err
	}
	r.Times = old.Times + 1
	if err := denials.Put(t.Tx, key, group, r); err != nil || there {
		return err
	}
	most := maxDenials
	if group == "" {
		most = maxFreeDenials
	}
	rows, err := denials.Group(t.Tx, group)
	if err != nil || len(rows) <= most {
		return err
	}
	slices.SortFunc(rows, func(a, b journal.Row[Refusal]) int { return a.V.At.Compare(b.V.At) })
	return denials.Delete(t.Tx, rows[0].Key)
}

// callRefused keeps why a call on a tool was refused: which link of its chain,
// which rule (E1). by is whose no it was.
func (t *turn) callRefused(key string, call jcs.Value, by string, d manifest.Denial) error {
	row, err := t.row(key)
	if err != nil {
		return err
	}
	text := func(member string) string {
		v, _ := call.Member(member)
		s, _ := v.Text()
		return manifest.Display(s, 100)
	}
	return t.keepRefusal(key, Refusal{Task: row.Key.ID.String(), Call: text("callId"), With: row.Peer, Name: t.trust.Contacts[row.Peer].Name, By: by, What: "call of " + text("tool"),
		Word: spec.Reason(d.Reason), Rule: d.Rule, Link: d.Link, Path: d.Path, Limit: d.Limit, At: t.now})
}

// keepUnsentCall keeps why a call never left: our own gateway saw that it cannot be.
func (g *Gateway) keepUnsentCall(ctx context.Context, by Caller, in Use, err error) {
	known, ok := denial(err)
	if !ok || in.Call != "" || known.Reason == spec.NotFound || known.Reason == spec.NotPermitted {
		return
	}
	err = g.turn(ctx, func(t *turn) error {
		row, err := t.atTools(by, in.Task)
		if err != nil {
			return err
		}
		rule, _, _ := strings.Cut(known.Limit, ":")
		if _, _, ok := spec.Explain(rule); !ok {
			rule = ""
		}
		return t.keepRefusal(row.Key.String(), Refusal{Task: row.Key.ID.String(), With: row.Peer, Name: t.trust.Contacts[row.Peer].Name, Agent: by.Agent, By: byLaw, What: "call of " + manifest.Display(in.Tool, 100),
			Word: known.Reason, Rule: rule, Path: known.Path, Limit: known.Limit, At: t.now})
	})
	if err != nil && ctx.Err() == nil {
		g.Log.Warn("a refusal is not kept", "error", err)
	}
}
