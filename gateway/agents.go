package gateway

import (
	"context"
	"encoding/json"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"sealbridge/manifest"
	"sealbridge/policy"
	"sealbridge/policy/approval"
	"sealbridge/policy/audit"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// sees says whether a task is the caller's: an owner sees all, an agent those
// that it asked for or works on, a boxed program its own. To it another's does not exist.
func (c Caller) sees(row taskRow) bool {
	if c.Task != "" && c.Task != row.Key.String() {
		return false
	}
	return c == Owner || c.Agent != "" && (row.Agent == c.Agent || row.Helper == c.Agent)
}

// agent refuses a caller that is none: what follows is asked by the agents' door only.
func (c Caller) agent() error {
	if c.Agent == "" {
		return spec.Refuse(spec.NotPermitted, "", "an agent's question")
	}
	return nil
}

// maySend is what holds a path of an agent against the owner's rules before the
// file is opened (K3); nil for the owner, who may name any file.
func (g *Gateway) maySend(ctx context.Context, by Caller, to string) (func(path string) error, error) {
	if by == Owner {
		return nil, nil
	}
	var out policy.Outbound
	err := g.view(ctx, func(t *turn) error {
		_, c, ok := t.trust.Named(to)
		if !ok {
			return spec.Refuse(spec.NotFound, "/to", "no contact is called "+manifest.Display(to, 40))
		}
		out = t.rules.Policy.OutboundTo(by.Agent, c.Name)
		return nil
	})
	return func(path string) error {
		if !out.Sends(filepath.ToSlash(filepath.Clean(path))) {
			no := spec.Refuse(spec.PolicyDenied, "/file", "K3: may_send of the owner's policy does not list this path; a person can send it with the command propose")
			no.Err = &refusalError{"", Refusal{Name: to, Agent: by.Agent, By: byRules, What: string(manifest.KindProposed), Word: no.Reason, Rule: "K3", Path: "/inputs", Limit: "may_send",
				Have: manifest.Display(path, 200), Most: strings.Join(out.MaySend, " "), At: g.Now()}}
			return no
		}
		return nil
	}, err
}

// callRow remembers one call, so that the same call again is the same task (G8).
type callRow struct {
	Task    string         `json:"task"`
	Subject signing.Digest `json:"subject"`
}

// call is what makes two calls one.
type call struct {
	by      Caller
	id      string
	subject signing.Digest // of contact, draft and file digests
	dry     bool
}

const maxCallID = 64

func callOf(by Caller, in Proposal, peer signing.DID, refs []manifest.ArtifactRef) (c call, err error) {
	if len(in.ID) > maxCallID {
		return c, spec.Refuse(spec.TooLarge, "/id", "64 characters")
	}
	draft := in.Draft
	if in.Bridged != nil {
		draft = pinned(draft)
	}
	raw, err := json.Marshal(struct {
		To    signing.DID            `json:"to"`
		Draft manifest.Draft         `json:"draft"`
		Files []manifest.ArtifactRef `json:"files"`
		Of    string                 `json:"of,omitempty"`
		Hand  []string               `json:"hand,omitempty"`
	}{peer, draft, refs, in.Parent, in.HandOn})
	if err != nil {
		return c, &spec.Error{Reason: spec.Malformed, Err: err}
	}
	v, err := jcs.Canonicalize(raw)
	return call{by: by, id: in.ID, subject: signing.DigestOf(v.Bytes()), dry: in.DryRun}, err
}

// key is by the caller's own id where it gave one. Without one an agent's call
// goes by its subject; an owner's is always new.
func (c call) key() string {
	switch {
	case c.dry:
		return ""
	case c.id != "":
		return c.by.Agent + "/id/" + c.id
	case c.by != Owner:
		return c.by.Agent + "/subject/" + c.subject.String()
	}
	return ""
}

// join finds the task of the same call: by id for ever, by subject while the ask is open (G8).
func (t *turn) join(c call) (row taskRow, ok bool, err error) {
	if c.key() == "" {
		return row, false, nil
	}
	known, ok, err := calls.Get(t.Tx, c.key())
	if err != nil || !ok {
		return row, false, err
	}
	if c.id != "" && known.Subject != c.subject {
		return row, false, spec.Refuse(spec.Conflict, "/id", "this id was given to another request")
	}
	row, err = t.row(known.Task)
	if err != nil {
		return row, false, err
	}
	return row, c.id != "" || row.Task.IsZero() && row.Dropped == "", nil
}

func (t *turn) called(c call, task string) error {
	if c.key() == "" {
		return nil
	}
	return calls.Put(t.Tx, c.key(), c.by.Agent, callRow{task, c.subject})
}

// joined is the answer to a call that was made before.
func (t *turn) joined(row taskRow) (Proposed, error) {
	out := Proposed{Task: row.Key.ID.String(), Manifest: row.Proposal, Joined: true, Sent: !row.Task.IsZero()}
	if out.Sent {
		out.Manifest = row.Task.Payload()
	}
	out.Digest = signing.DigestOf(out.Manifest.Bytes()).String()
	rows, err := asks.Group(t.Tx, row.Key.String())
	for _, r := range rows {
		if r.V.State == string(approval.Waiting) {
			out.Ask, out.Until = r.Key, r.V.Ask.Until.Time()
		}
	}
	return out, err
}

// Askable is a contact as an agent sees it: our name for it, and what the owner's rules let this agent ask.
type Askable struct {
	Name      string
	Confirmed bool
	policy.Outbound
}

// Askables lists contacts for an agent; blocked ones are not there.
func (g *Gateway) Askables(ctx context.Context, by Caller, _ None) (out []Askable, err error) {
	if err := by.agent(); err != nil {
		return nil, err
	}
	out = []Askable{}
	err = g.view(ctx, func(t *turn) error {
		for owner, c := range t.trust.Contacts {
			if owner != g.Owner && !c.Blocked && !c.Introduced() {
				out = append(out, Askable{c.Name, c.Confirmed, t.rules.Policy.OutboundTo(by.Agent, c.Name)})
			}
		}
		return nil
	})
	sort.Slice(out, func(i, k int) bool { return out[i].Name < out[k].Name })
	return out, err
}

// AskRef names an ask by its id, or the open one of a task.
type AskRef struct{ Ask, Task string }

// Approval is an ask as an agent may see it: that it waits, for which gate, and
// what became of it. There is no text of it and nothing to decide with.
type Approval struct {
	Ask, Gate, State, Task string
	Until, Closed          time.Time
}

// nudgeEvery bounds how often an agent can have its owner told again.
const nudgeEvery = 10 * time.Minute

// Approval reads what became of an ask.
func (g *Gateway) Approval(ctx context.Context, by Caller, in AskRef) (out Approval, err error) {
	err = g.view(ctx, func(t *turn) error {
		r, err := t.askOf(by, in)
		out = approvalOf(r, t.now)
		return err
	})
	return out, err
}

// RequestApproval has the owner told again that an ask waits. It answers at once: a person decides, elsewhere (G9).
func (g *Gateway) RequestApproval(ctx context.Context, by Caller, in AskRef) (out Approval, err error) {
	err = g.turn(ctx, func(t *turn) error {
		r, err := t.askOf(by, in)
		if err != nil {
			return err
		}
		out = approvalOf(r, t.now)
		if r.stateAt(t.now) != approval.Waiting || t.now.Before(r.Nudged.Add(nudgeEvery)) || t.now.Before(r.At.Add(nudgeEvery)) {
			return nil
		}
		r.Nudged = t.now
		if err := asks.Put(t.Tx, r.Ask.AskID.String(), r.Task, r); err != nil {
			return err
		}
		return t.tell()
	})
	return out, err
}

// approvalOf is the ask at an instant: expired from its end on, whoever looks (B015).
func approvalOf(r askRow, now time.Time) Approval {
	if r.Task == "" {
		return Approval{}
	}
	return Approval{r.Ask.AskID.String(), manifest.GateWord(r.Ask.Gate), string(r.stateAt(now)), r.Ask.TaskID.String(), r.Ask.Until.Time(), r.Closed}
}

// askOf finds an ask of a task that the caller sees; of a task it is the open one, else the newest.
func (t *turn) askOf(by Caller, in AskRef) (r askRow, err error) {
	if in.Ask != "" {
		r, ok, err := asks.Get(t.Tx, in.Ask)
		if err != nil {
			return r, err
		}
		if ok {
			if row, err := t.row(r.Task); err == nil && by.sees(row) {
				return r, nil
			}
		}
		return askRow{}, spec.Refuse(spec.NotFound, "", "no ask has this id")
	}
	row, err := t.find(by, in.Task)
	if err != nil {
		return r, err
	}
	rows, err := asks.Group(t.Tx, row.Key.String())
	if err != nil {
		return r, err
	}
	for _, k := range rows {
		if k.V.stateAt(t.now) == approval.Waiting {
			return k.V, nil
		}
		if r.Task == "" || r.At.Before(k.V.At) {
			r = k.V
		}
	}
	if r.Task == "" {
		err = spec.Refuse(spec.NotFound, "", "nobody is asked about this task")
	}
	return r, err
}

// Wish is a contact that an agent would like its owner to make. It makes nothing (K2).
type Wish struct {
	Agent string    `json:"agent"`
	Who   string    `json:"who"`
	Why   string    `json:"why"`
	At    time.Time `json:"at"`
}

const (
	maxWishes   = 5 // of one agent: the newest ones; more would bury what a person reads
	maxWishText = 300
)

// RequestContact keeps an agent's wish for its owner to see beside the contacts.
func (g *Gateway) RequestContact(ctx context.Context, by Caller, in Wish) (out Wish, err error) {
	if err := by.agent(); err != nil {
		return out, err
	}
	if in.Who == "" || len([]rune(in.Who)) > 100 || len([]rune(in.Why)) > maxWishText {
		return out, spec.Refuse(spec.Malformed, "/who", "a name of up to 100 characters, a reason of up to 300")
	}
	err = g.turn(ctx, func(t *turn) error {
		rows, err := wishes.Group(t.Tx, by.Agent)
		if err != nil {
			return err
		}
		key := by.Agent + "/" + manifest.Skeleton(in.Who)
		for _, r := range rows {
			if r.Key == key { // asked before: the first stands
				out = r.V
				return nil
			}
		}
		if len(rows) >= maxWishes {
			return spec.Refuse(spec.Quota, "", "5 contacts asked for and not made yet")
		}
		out = Wish{by.Agent, in.Who, in.Why, t.now}
		if err := t.note(self, map[string]string{"wish": in.Who, "agent": by.Agent}); err != nil {
			return err
		}
		return wishes.Put(t.Tx, key, by.Agent, out)
	})
	return out, err
}

// Wishes lists what agents asked for, oldest first; clear takes them away, as a person has read them.
func (g *Gateway) Wishes(ctx context.Context, by Caller, clear bool) (out []Wish, err error) {
	if err := by.Person(); err != nil {
		return nil, err
	}
	out = []Wish{}
	list := func(t *turn) error {
		rows, err := wishes.All(t.Tx)
		for _, r := range rows {
			out = append(out, r.V)
			if clear && err == nil {
				err = wishes.Delete(t.Tx, r.Key)
			}
		}
		return err
	}
	if clear {
		err = g.turn(ctx, list)
	} else {
		err = g.view(ctx, list)
	}
	sort.Slice(out, func(i, k int) bool { return out[i].At.Before(out[k].At) })
	return out, err
}

// Evidence is a bundle to be read, or a task of the caller's.
type Evidence struct{ Task, Bundle string }

// VerifyEvidence replays a bundle, or the caller's own task as it would be
// exported, with the owners that a person confirmed as known. The report
// leaves, the bundle does not (G9).
func (g *Gateway) VerifyEvidence(ctx context.Context, by Caller, in Evidence) (out audit.Report, err error) {
	known := map[signing.DID]audit.Known{}
	err = g.view(ctx, func(t *turn) error {
		for owner, c := range t.trust.Contacts {
			switch {
			case owner == g.Owner:
				known[owner] = audit.Known{Name: "this gateway's owner", Learned: "this home"}
			case c.Confirmed:
				known[owner] = audit.Known{Name: c.Name, Learned: "six words compared"}
			}
		}
		if in.Task == "" {
			return nil
		}
		row, err := t.find(by, in.Task)
		if err == nil {
			in.Bundle, err = t.bundle(row)
		}
		return err
	})
	if err != nil {
		return out, err
	}
	return audit.Verify(strings.NewReader(in.Bundle), audit.Options{Trust: known})
}

// CardURL is where a person opens an ask in the console; "" where none runs. It shows, it never decides (G9).
func (g *Gateway) CardURL(ask string) string {
	g.logins.mu.Lock()
	defer g.logins.mu.Unlock()
	if g.logins.at == "" {
		return ""
	}
	return g.logins.at + "/asks/" + ask
}
