package gateway

import (
	"context"
	"strings"
	"time"

	"sealbridge/manifest"
	"sealbridge/manifest/task"
	"sealbridge/policy"
	"sealbridge/policy/approval"
	"sealbridge/signing"
	"sealbridge/spec"
)

// Change is what one owner asks of the other about a contract in force (H10);
// what is absent stays as it is.
type Change struct {
	Task         string     `json:"task"`
	InputTokens  *int64     `json:"inputTokens,omitempty"` // new limits
	OutputTokens *int64     `json:"outputTokens,omitempty"`
	ToolCalls    *int64     `json:"toolCalls,omitempty"`
	Seconds      *int64     `json:"seconds,omitempty"` // of working time
	Deadline     *time.Time `json:"deadline,omitempty"`
	Retries      *int64     `json:"retries,omitempty"`
	Withdraw     []string   `json:"withdraw,omitempty"` // grants, each by an ending of its id
}

// Changed is what came of it: it is in force once the other owner said yes.
type Changed struct {
	Task      string             `json:"taskId"`
	Ask       string             `json:"ask,omitempty"` // of our own owner, who decides first
	Sent      bool               `json:"sent"`
	Amendment manifest.Amendment `json:"amendment"`
}

// changeRow is an amendment that waits for our own owner; nothing of it left this gateway.
type changeRow struct {
	Base      signing.Digest     `json:"base"`
	Amendment manifest.Amendment `json:"amendment"`
	Wished    bool               `json:"wished,omitempty"` // by a program, or because a meter ran out: our owner decides first in any case
}

// Amend asks the other owner for another budget, deadline or number of retries (H9).
func (g *Gateway) Amend(ctx context.Context, by Caller, in Change) (out Changed, err error) {
	if err := by.Person(); err != nil {
		return out, err
	}
	err = g.turn(ctx, func(t *turn) error {
		row, err := t.find(by, in.Task)
		if err != nil {
			return err
		}
		if row.Task.IsZero() {
			return spec.Refuse(spec.IllegalTransition, "", "H9: nothing is agreed yet; cancel and propose again")
		}
		a := in.amendment(row.Task.InForce())
		if a.Withdraw, err = in.withdrawn(row); err != nil {
			return err
		}
		said, err := t.askOwner(&row, a, false)
		out = Changed{Task: row.Key.ID.String(), Sent: said.Outcome == policy.Allow, Amendment: a}
		if said.Ask != nil {
			out.Ask = said.Ask.Ask.AskID.String()
		}
		return err
	})
	return out, err
}

func (in Change) amendment(now task.Contract) (a manifest.Amendment) {
	limits := now.Limits
	for _, m := range []struct{ to, of *int64 }{{in.InputTokens, &limits.InputTokens}, {in.OutputTokens, &limits.OutputTokens},
		{in.ToolCalls, &limits.ToolInvocations}, {in.Seconds, &limits.WallClockSeconds}} {
		if m.to != nil {
			*m.of, a.Budget = *m.to, &limits
		}
	}
	if in.Deadline != nil {
		at := signing.TimeOf(*in.Deadline)
		a.Deadline = &at
	}
	a.MaxRetries = in.Retries
	return a
}

// withdrawn are the grants in force that the change takes back.
func (in Change) withdrawn(row taskRow) (out []manifest.CapabilityID, err error) {
	m, _ := row.Task.Contract()
	for i, ref := range in.Withdraw {
		var found []manifest.CapabilityID
		for _, g := range m.Permissions.GrantedCapabilities {
			if len(ref) >= 4 && strings.HasSuffix(strings.ToLower(g.CapabilityID.String()), strings.ToLower(ref)) {
				found = append(found, g.CapabilityID)
			}
		}
		if len(found) != 1 {
			return nil, spec.Refuse(spec.NotFound, "/withdraw/"+itoa(i), "a grant in force, by an ending of its id that no other has")
		}
		out = append(out, found[0])
	}
	return out, nil
}

// askOwner says asked with an amendment on the contract in force, or holds it for our own owner.
func (t *turn) askOwner(row *taskRow, a manifest.Amendment, wished bool) (Said, error) {
	row.Change = &changeRow{row.Task.InForce().Digest, a, wished}
	fact, err := t.asking(*row)
	if err != nil {
		return Said{}, err
	}
	if err := row.Task.Legal(t.g.Agent.DID(), manifest.Body{Fact: fact}, t.now); err != nil {
		return Said{}, spec.At("/amendment", err)
	}
	return t.say(row, fact)
}

func (t *turn) asking(row taskRow) (manifest.Fact, error) {
	if row.Change == nil || row.Change.Base != row.Task.InForce().Digest {
		return nil, spec.Refuse(spec.Conflict, "", "H9: another contract is in force by now")
	}
	return manifest.Asked{Contract: row.Change.Base, Amendment: &row.Change.Amendment}, nil
}

// asked lists what the other owner asks and nobody has answered.
func (r taskRow) asked() (out []task.Ask) {
	for _, a := range r.Task.Asks() {
		if a.By != r.Role && a.Status == task.AskOpen {
			out = append(out, a)
		}
	}
	return out
}

// asking says whether an ask of ours waits for the other owner.
func (r taskRow) openAsk() bool {
	for _, a := range r.Task.Asks() {
		if a.By == r.Role && a.Status == task.AskOpen && !r.Task.Lapsed(a) {
			return true
		}
	}
	return false
}

// answer decides about what the other owner asks: a person is asked, or the law
// or the owner's rules say no.
func (t *turn) answer(key string) error {
	row, err := t.row(key)
	if err != nil || row.Task.Ended() || row.Recovery != "" {
		return err
	}
	for _, a := range row.asked() {
		if err := t.answerOne(&row, a); err != nil {
			return err
		}
	}
	return nil
}

func (t *turn) answerOne(row *taskRow, a task.Ask) error {
	switch {
	case row.Task.Lapsed(a): // H9: it can only get a no
		_, err := t.sayNo(row, manifest.Answered{Ask: a.Event, Reason: string(spec.Stale)})
		return err
	case row.Role == manifest.Requester && row.openAsk():
		return nil // H9: our own first; looked at again when it is answered
	}
	_, err := t.say(row, manifest.Answered{Ask: a.Event, Yes: true})
	known, ok := denial(err)
	if !ok {
		return err
	}
	if err := t.keepFrom(err); err != nil {
		return err
	}
	t.g.Log.Info("answering no", "task", row.Key.ID.String(), "word", known.Reason, "limit", known.Limit)
	_, err = t.sayNo(row, manifest.Answered{Ask: a.Event, Reason: string(known.Reason)})
	return err
}

// answering makes again the yes that waited for our owner: the ask is the one whose subject the person saw.
func (t *turn) answering(row taskRow, subject signing.Digest) (manifest.Answered, error) {
	for _, a := range row.asked() {
		var first *signing.Digest
		if !a.Decision.IsZero() {
			first = &a.Decision
		}
		if a.Amendment != nil && policy.AmendmentSubject(a.Base, *a.Amendment, first) == subject {
			return manifest.Answered{Ask: a.Event, Yes: true}, nil
		}
		if above, _ := row.Task.Contract(); a.Part != nil && policy.ChildSubject(a.Base, *a.Part, above, nil) == subject {
			return manifest.Answered{Ask: a.Event, Yes: true}, nil
		}
	}
	return manifest.Answered{}, spec.Refuse(spec.Conflict, "", "H9: nobody asks that any more")
}

// ChangeView is one amendment that was asked for.
type ChangeView struct {
	By        manifest.Role      `json:"by"`
	At        time.Time          `json:"at"`
	Status    string             `json:"status"` // open, yes, no; lapsed where another contract came into force first
	Amendment manifest.Amendment `json:"amendment"`
}

func changesOf(row taskRow) []ChangeView {
	out := []ChangeView{}
	for _, a := range row.Task.Asks() {
		if a.Amendment == nil {
			continue
		}
		c := ChangeView{a.By, a.At.Time(), string(a.Status), *a.Amendment}
		if row.Task.Lapsed(a) {
			c.Status = "lapsed"
		}
		out = append(out, c)
	}
	return out
}

// changeWords says an amendment in figures: all are numbers and times.
func changeWords(a manifest.Amendment) string {
	var out []string
	if b := a.Budget; b != nil {
		out = append(out, itoa(b.InputTokens)+" tokens in, "+itoa(b.OutputTokens)+" out, "+itoa(b.ToolInvocations)+" tool calls, "+
			(time.Duration(b.WallClockSeconds)*time.Second).String()+" of work")
	}
	if a.Deadline != nil {
		out = append(out, "until "+a.Deadline.String())
	}
	if a.MaxRetries != nil {
		out = append(out, itoa(*a.MaxRetries)+" retries")
	}
	if n := len(a.Withdraw); n > 0 {
		out = append(out, itoa(n)+" grants withdrawn")
	}
	return strings.Join(out, "; ")
}

// BudgetWish is what an agent would like to have more of: new limits of meters.
type BudgetWish struct {
	Task                    string
	InputTokens             *int64
	OutputTokens, ToolCalls *int64
	Seconds                 *int64 // of working time
}

// RequestBudget asks for more budget of a task that the caller works on: its own
// owner first, then the other one (H10). It waits for nobody; the same wish again
// joins the one that is open (G8), and work goes on within what there is.
func (g *Gateway) RequestBudget(ctx context.Context, by Caller, in BudgetWish) (out Changed, err error) {
	err = g.turn(ctx, func(t *turn) error {
		row, err := t.atWork(by, in.Task)
		switch {
		case err != nil:
			return err
		case row.Task.Ended() || row.Task.State() != task.Accepted && row.Task.State() != task.Working:
			return spec.Refuse(spec.IllegalTransition, "", "only accepted work that has not ended")
		}
		now := row.Task.InForce()
		a := Change{InputTokens: in.InputTokens, OutputTokens: in.OutputTokens, ToolCalls: in.ToolCalls, Seconds: in.Seconds}.amendment(now)
		if a.Budget == nil || *a.Budget == now.Limits || lowers(*a.Budget, now.Limits) {
			return spec.Refuse(spec.Malformed, "/budget", "more than there is of something, and less of nothing")
		}
		out = Changed{Task: row.Key.ID.String(), Amendment: a}
		if open, sent := row.asksFor(now.Digest); open != nil { // by the agent, or because a meter ran out
			if open.Budget == nil || *open.Budget != *a.Budget {
				return spec.Refuse(spec.Conflict, "", "G8: another change of this contract is asked for already")
			}
			out.Sent = sent
			out.Ask, err = t.askFor(row)
			return err
		}
		if row.Refused == now.Digest {
			return spec.Refuse(spec.GateDenied, "", "the owner wanted no more budget under this contract")
		}
		said, err := t.askOwner(&row, a, true)
		out.Sent = said.Outcome == policy.Allow
		if said.Ask != nil {
			out.Ask = said.Ask.Ask.AskID.String()
		}
		return err
	})
	return out, err
}

// asksFor is the amendment of a contract that we ask for and nobody has decided, and whether the other owner has it.
func (r taskRow) asksFor(contract signing.Digest) (a *manifest.Amendment, sent bool) {
	for _, k := range r.Task.Asks() {
		if k.By == r.Role && k.Status == task.AskOpen && !r.Task.Lapsed(k) {
			return k.Amendment, k.Amendment != nil
		}
	}
	if r.Change != nil && r.Change.Base == contract {
		return &r.Change.Amendment, false
	}
	return nil, false
}

// askFor is the id of the open question to our owner about an amendment; "" where it is the other one's turn.
func (t *turn) askFor(row taskRow) (string, error) {
	rows, err := asks.Group(t.Tx, row.Key.String())
	for _, r := range rows {
		if r.V.Kind == manifest.KindAsked && r.V.stateAt(t.now) == approval.Waiting {
			return r.Key, err
		}
	}
	return "", err
}

// lowers says whether any limit is lower than it was.
func lowers(a, than manifest.Meters) bool {
	for _, m := range policy.Meters() {
		if m.Of(a) < m.Of(than) {
			return true
		}
	}
	return false
}
