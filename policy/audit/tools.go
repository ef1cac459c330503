package audit

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"sealbridge/manifest"
	"sealbridge/manifest/task"
	"sealbridge/policy"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// toolCall is one call under a root of this task, with what was answered.
type toolCall struct {
	doc     *document
	call    *manifest.ToolCall
	answers []*toolAnswer // in the order of their times
	of      manifest.CapabilityID
	link    int // of the chain, the token that was granted in this task; 1: its requester enforces
}

type toolAnswer struct {
	doc *document
	r   *manifest.ToolResult
}

// handed lists the tokens that the requester handed over in this task, as the
// documents say before anything was replayed: what belongs to the task is named
// by them.
func (a *audit) handed() {
	tokens, holders, called := map[signing.Digest]bool{}, map[signing.DID]bool{}, map[signing.Digest]signing.DID{}
	for _, d := range a.sorted {
		e, ok := d.signed.Document().(*manifest.Event)
		if !ok || !d.good() || e.ManifestDigest != a.digest {
			continue
		}
		var in *manifest.Introduction
		switch f := e.Body.Fact.(type) {
		case manifest.Granted:
			for _, t := range f.Tokens {
				tokens[signing.DigestOf(t.Bytes())] = true
			}
			in = f.Issuer
		case manifest.Delegated:
			in = f.Worker
		}
		if in != nil {
			if c, err := in.Agent(); err == nil {
				holders[c.AgentDid] = true
			}
		}
	}
	for _, d := range a.sorted {
		c, ok := d.signed.Document().(*manifest.ToolCall)
		if !ok || !d.good() || !under(c, tokens) {
			continue
		}
		holders[d.signed.By()], holders[c.To], called[d.whole] = true, true, c.To
		for _, l := range c.Links {
			if issuer, ok := l.Member("issuer"); ok {
				if text, ok := issuer.Text(); ok {
					if did, err := signing.ParseDID(text); err == nil {
						holders[did] = true
					}
				}
			}
		}
	}
	a.handedOver, a.holders, a.called = tokens, holders, called
}

// under says whether a call names a token of this task: as its root, or as a link.
func under(c *manifest.ToolCall, tokens map[signing.Digest]bool) bool {
	return tokens[c.Root] || slices.ContainsFunc(c.Links, func(l jcs.Value) bool { return tokens[signing.DigestOf(l.Bytes())] })
}

// tools holds every call under a token of this task, and every answer to one,
// against the law that the enforcing gateway had to hold (C5). What it cannot
// know is claimed: what the owner's tool table says, and that no word was stale.
// Where the token is a link, the tool is a third owner's: then only the chain
// and what it covers can be held, its root's contract is not here.
func (a *audit) tools() {
	if a.task.IsZero() {
		return
	}
	roots := a.roots()
	calls, order := a.toolCalls()
	if len(order) == 0 {
		a.strayAnswers(calls)
		return
	}
	then := a.past()
	var ledger policy.Ledger
	chains := policy.NewChains()
	used := map[manifest.CapabilityID]*ToolUse{}
	foreign := map[signing.Digest]int64{} // uses of links of others' tools
	direct := int64(0)
	for _, c := range order {
		root, ok := roots[c.call.Root]
		if !ok {
			a.find(Wrong, spec.CapabilityDenied, c.doc, "/root", "C2", "a call under a token that was not granted")
			continue
		}
		chain, err := chains.ChainOf(a.keys, c.call, root)
		if err != nil {
			n := policy.DenialOf(err)
			if c.charged() != nil {
				a.find(Wrong, spec.Reason(n.Reason), c.doc, n.Path, n.Rule, fmt.Sprintf("link %d does not hold: %s", n.Link, orText(n.Limit, n.Reason)))
			}
			continue
		}
		a.rep.Signatures += chain.Len() - 1
		if c.link = a.grantedIn(chain); c.link == 0 {
			a.find(Wrong, spec.CapabilityDenied, c.doc, "/links", "C2", "a call under a token that was not granted")
			continue
		}
		c.of = chain.Token(c.link).CapabilityID
		u := used[c.of]
		if u == nil {
			u = &ToolUse{CapabilityID: c.of, Of: a.granted(c.of), Calls: []Call{}}
			used[c.of] = u
		}
		last := c.last()
		fact := Call{Digest: c.doc.whole, Tool: manifest.Display(c.call.Tool, 128), By: c.doc.signed.By(), Links: chain.Len(), At: c.call.At, State: manifest.CallPending}
		if last != nil {
			fact.State = last.r.State
		} else {
			a.find(Note, spec.NotFound, c.doc, "", "C5", "no answer to this call is here")
		}
		if x := c.charged(); x != nil {
			if u.Used++; c.link == 1 {
				ledger = a.charge(c, x, chain, then, ledger)
			} else {
				a.covered(c, x, chain, foreign)
			}
			if chain.Len() == c.link {
				direct++
			}
		}
		u.Calls = append(u.Calls, fact)
	}
	a.strayAnswers(calls)
	a.counts(used, order)
	if usage := a.task.Usage(); usage != nil && len(a.task.Endings()) > 0 && usage.ToolInvocations < direct {
		a.find(Note, spec.VerificationFailed, nil, "", "B7", fmt.Sprintf("%s states %d tool calls, %s answered %d", a.name(manifest.Worker), usage.ToolInvocations, a.name(manifest.Requester), direct))
	}
	for _, id := range sortedIDs(used) {
		a.rep.Facts.Tools = append(a.rep.Facts.Tools, *used[id])
	}
}

// grantedIn is the link of a chain that was granted in this task; 0 for none.
func (a *audit) grantedIn(c policy.Chain) int {
	for n := 1; n <= c.Len(); n++ {
		if a.handedOver[c.Link(n).Digest()] {
			return n
		}
	}
	return 0
}

// covered holds a call on a third owner's tool against its chain, and the uses
// of each link in it against its count.
func (a *audit) covered(c *toolCall, x *toolAnswer, chain policy.Chain, uses map[signing.Digest]int64) {
	row := stated(c, x)
	if e := policy.Within(chain, c.doc.by, row); e != nil {
		a.find(Wrong, e.Reason, c.doc, e.Path, e.Rule, fmt.Sprintf("the call was answered, and link %d does not allow it: %s", e.Link, orText(e.Limit, string(e.Reason))))
	}
	for n := c.link; n <= chain.Len(); n++ {
		d := chain.Link(n).Digest()
		if uses[d]++; uses[d] > chain.Token(n).MaxInvocations {
			a.find(Wrong, spec.CapabilityExhausted, c.doc, "", "C5", fmt.Sprintf("link %d has %d uses, this is one more", n, chain.Token(n).MaxInvocations))
		}
	}
}

// stated is a tool as call and answer say it: what it reaches, and what was put in.
func stated(c *toolCall, x *toolAnswer) policy.ToolRow {
	row := policy.ToolRow{Defaults: x.r.Defaults, Effects: []string{"none"}}
	if whole := policy.WholeTool(c.call.Tool); len(c.call.Resources) == 1 && whole == c.call.Resources[0] {
		return row
	}
	for _, r := range c.call.Resources {
		if tpl, err := policy.ParseTemplate(r.String()); err == nil {
			row.Templates = append(row.Templates, tpl)
		}
	}
	return row
}

// roots are what the chains of calls begin with, by digest: the tokens of granted
// events that count where they are roots, and the roots that stand above them.
func (a *audit) roots() map[signing.Digest]jcs.Value {
	out := map[signing.Digest]jcs.Value{}
	for _, ev := range a.events {
		f, ok := ev.e.Body.Fact.(manifest.Granted)
		if !ok || ev.e.Seq > seqOf(a.task.Head(ev.role)) {
			continue
		}
		held := policy.Holdings(f)
		if len(held) == len(f.Tokens) {
			a.rep.Signatures += len(f.Tokens) + len(f.Above)
		}
		for _, h := range held {
			root := h.Chain.Link(1)
			out[root.Digest()] = root.Wire()
		}
	}
	return out
}

// toolCalls are the calls of this task that hold, by digest, and in the order of their answers.
func (a *audit) toolCalls() (map[signing.Digest]*toolCall, []*toolCall) {
	calls := map[signing.Digest]*toolCall{}
	var order []*toolCall
	for d := range a.evidence() {
		if c, ok := d.signed.Document().(*manifest.ToolCall); ok && !d.by.IsZero() && calls[d.whole] == nil {
			calls[d.whole] = &toolCall{doc: d, call: c}
			order = append(order, calls[d.whole])
		}
	}
	seen := map[signing.Digest]bool{}
	for d := range a.evidence() {
		r, ok := d.signed.Document().(*manifest.ToolResult)
		if !ok || d.by.IsZero() || seen[d.whole] {
			continue
		}
		seen[d.whole] = true
		if c := calls[r.Call]; c != nil {
			a.answered(c, &toolAnswer{d, r})
		}
	}
	for _, c := range order {
		sort.SliceStable(c.answers, func(i, j int) bool { return c.answers[i].r.At.Before(c.answers[j].r.At) })
	}
	sort.SliceStable(order, func(i, j int) bool {
		x, y := order[i].when(), order[j].when()
		if !x.Equal(y) {
			return x.Before(y)
		}
		if a, b := order[i].charged(), order[j].charged(); a != nil && b != nil && a.r.UsesLeft != b.r.UsesLeft { // of one second: the count tells
			return a.r.UsesLeft > b.r.UsesLeft
		}
		return order[i].doc.whole.String() < order[j].doc.whole.String()
	})
	return calls, order
}

// answered holds one answer against its call: it goes to who called, comes
// after the call, and there is one that is final (C4, C5).
func (a *audit) answered(c *toolCall, x *toolAnswer) {
	switch {
	case x.doc.signed.By() != c.call.To:
		if charges(x) {
			a.find(Wrong, spec.WrongSigner, x.doc, "/signature/signerDid", "C5", "an answer by somebody who was not asked")
		}
		return // a refusal by somebody else refuses nothing
	case x.r.To != c.doc.signed.By():
		a.find(Wrong, spec.WrongSigner, x.doc, "/to", "C5", "an answer to somebody who did not call")
		return
	case x.r.At.Time().Add(policy.MaxAhead).Before(c.call.At.Time()):
		a.find(Wrong, spec.Malformed, x.doc, "/at", "T1", "answered before it was asked")
		return
	}
	for _, y := range c.answers {
		if final(x) && final(y) && said(x) != said(y) {
			a.find(Wrong, spec.Conflict, x.doc, "/call", "C4", "two answers to one call")
			return
		}
	}
	c.answers = append(c.answers, x)
}

func final(x *toolAnswer) bool {
	return x.r.State == manifest.CallDone || x.r.State == manifest.CallRefused
}

// charges says whether an answer says that the tool was called, or may have been.
func charges(x *toolAnswer) bool {
	return x.r.State == manifest.CallDone || x.r.State == manifest.CallUnknown
}

// said is what an answer says beside its figures: a repetition may have newer ones.
func said(x *toolAnswer) string {
	s := string(x.r.State) + x.r.Result.String() + x.r.Defaults.String()
	if x.r.Artifact != nil {
		s += x.r.Artifact.Digest.String()
	}
	return s
}

// last is the answer that stays: a final one, whatever else came in its second.
func (c *toolCall) last() (x *toolAnswer) {
	for _, y := range c.answers {
		if x == nil || final(y) || !final(x) {
			x = y
		}
	}
	return x
}

// charged is the answer that says that the tool was called, or may have been.
func (c *toolCall) charged() *toolAnswer {
	for _, x := range c.answers {
		if charges(x) {
			return x
		}
	}
	return nil
}

// when is the time of the answer that charges, else of the call.
func (c *toolCall) when() time.Time {
	if x := c.charged(); x != nil {
		return x.r.At.Time()
	}
	return c.call.At.Time()
}

// charge replays one use: the law must let it be at the time of the call or of
// its answer, whichever of the two clocks was ahead.
func (a *audit) charge(c *toolCall, x *toolAnswer, chain policy.Chain, then *past, l policy.Ledger) policy.Ledger {
	end := c.call.ExpiresAt.Time().Add(-time.Second)
	late := x.r.At.Time()
	if late.After(end) {
		late = end // a gate has its own time: the call was there before its term ended
	}
	var d policy.CallDecision
	for i, at := range []time.Time{late, c.call.At.Time()} {
		k := a.callCase(c, x, chain, then, at, l)
		for n, t := range then.during(at) {
			k.Task = t
			next := policy.Calls(k)
			if i+n == 0 || next.Outcome == policy.Allow {
				d = next
			}
			if d.Outcome == policy.Allow {
				break
			}
		}
		if d.Outcome == policy.Allow {
			break
		}
	}
	if d.Outcome != policy.Allow {
		a.find(Wrong, d.Reason, c.doc, d.Path, orText(d.Rule, "C5"), fmt.Sprintf("the call was answered, and link %d does not allow it: %s", d.Link, orText(d.Limit, string(d.Reason))))
		return l
	}
	a.effect(c, d, x)
	next, err := l.Apply(d.Moves...)
	if err == nil {
		next, err = next.Apply(policy.CallEnds(next, a.task.Key(), chain, c.doc.whole, true)...)
	}
	if err != nil {
		a.find(Wrong, spec.ReasonOf(err), c.doc, "", "C5", "more uses than the grant has")
		return l
	}
	return next
}

// callCase is what the enforcing gateway looked at, as far as documents say it.
func (a *audit) callCase(c *toolCall, x *toolAnswer, chain policy.Chain, then *past, at time.Time, l policy.Ledger) policy.CallCase {
	t := then.task(at)
	k := policy.CallCase{Call: c.doc.by, Chain: chain, Self: a.m.Requester.AgentDid, Task: t, Table: policy.ToolTable{c.call.Tool: stated(c, x)},
		Children: map[signing.Digest]manifest.TaskManifest{}, Trust: then.trust(at), Heard: map[signing.DID]time.Time{}, Ledger: l, At: at}
	for owner := range k.Trust.Contacts {
		k.Heard[owner] = at
	}
	for _, child := range t.Children() {
		for _, ask := range t.Asks() {
			if ask.Part == nil || ask.Child != child.Manifest {
				continue
			}
			if m, err := ask.Part.Contract(); err == nil {
				k.Children[child.Manifest] = m
			}
		}
	}
	return k
}

// effect notes the person's yes to a call, where one is here; that none was
// needed is the enforcing owner's word.
func (a *audit) effect(c *toolCall, d policy.CallDecision, x *toolAnswer) {
	subject := policy.EffectSubject(d.Effect)
	var yes []consent
	for _, k := range a.consents {
		if k.Gate == manifest.EffectGate && k.Subject == subject && k.Owner == a.m.Requester.OwnerDid {
			yes = append(yes, k)
		}
	}
	if len(yes) > 0 { // several are one: the report does not depend on which came first
		k := slices.MinFunc(yes, func(a, b consent) int { return strings.Compare(a.Decision.String(), b.Decision.String()) })
		if k.decision.DecidedAt.Time().After(x.r.At.Time().Add(policy.MaxAhead)) {
			a.find(Wrong, spec.Malformed, c.doc, "", "T1", "decided after what it allows")
		}
		a.rep.Proven = append(a.rep.Proven, Entry{What: "effect of " + manifest.Display(c.call.Tool, 64) + " decided by the owner", By: a.name(manifest.Requester), Rule: "G1", Path: k.doc.path})
		return
	}
	if a.m.HITLPolicy.Names(manifest.EffectGate) {
		a.claim(Entry{What: "that " + manifest.Display(c.call.Tool, 64) + " has no effect outside: no decision about its call is here", By: a.name(manifest.Requester), Rule: "G1"})
	}
}

func (a *audit) claim(e Entry) {
	if !slices.Contains(a.rep.Claimed, e) {
		a.rep.Claimed = append(a.rep.Claimed, e)
	}
}

// strayAnswers are answers whose call is not here: somebody has it and did not show it.
func (a *audit) strayAnswers(calls map[signing.Digest]*toolCall) {
	for d := range a.evidence() {
		if r, ok := d.signed.Document().(*manifest.ToolResult); ok && !d.by.IsZero() && calls[r.Call] == nil {
			a.find(Absent, spec.NotFound, d, "/call", "C5", "an answer to a call that is not here")
		}
	}
}

// counts holds the uses that answers say are left against the uses that were
// answered before: a gateway knows its own count (B7).
func (a *audit) counts(used map[manifest.CapabilityID]*ToolUse, order []*toolCall) {
	type count struct {
		earlier, at int64 // uses answered before a second, and up to its end
		second      time.Time
	}
	counts := map[manifest.CapabilityID]*count{}
	for _, c := range order {
		x := c.charged()
		if x == nil || c.link != 1 {
			continue // what is left of a third owner's root is more than this task shows
		}
		n := counts[c.of]
		if n == nil {
			n = &count{}
			counts[c.of] = n
		}
		if t := x.r.At.Time().Truncate(time.Second); t.After(n.second) {
			n.earlier, n.second = n.at, t
		}
		n.at++
		if u := used[c.of]; u != nil && u.Of > 0 && x.r.UsesLeft > u.Of-n.earlier-1 {
			a.find(Note, spec.VerificationFailed, x.doc, "/usesLeft", "B7", fmt.Sprintf("says that %d uses are left; of %d, %d were answered", x.r.UsesLeft, u.Of, n.earlier+1))
		}
	}
	for _, id := range sortedIDs(used) {
		u := used[id]
		if u.Of > 0 && u.Used > u.Of {
			a.find(Wrong, spec.CapabilityExhausted, nil, "", "C5", fmt.Sprintf("%s was used %d of %d times", id, u.Used, u.Of))
		}
		a.rep.Proven = append(a.rep.Proven, Entry{What: fmt.Sprintf("%s: %d of %d uses answered", id, u.Used, u.Of), By: a.name(manifest.Requester), Rule: "C5"})
		a.claim(Entry{What: "what its tools reach and what they answered", By: a.name(manifest.Requester), Rule: "C1a"})
	}
}

func (a *audit) granted(id manifest.CapabilityID) int64 {
	for _, g := range a.m.Permissions.GrantedCapabilities {
		if g.CapabilityID == id {
			return g.MaxInvocations
		}
	}
	return 0
}

func sortedIDs(m map[manifest.CapabilityID]*ToolUse) []manifest.CapabilityID {
	var out []manifest.CapabilityID
	for id := range m {
		out = append(out, id)
	}
	slices.SortFunc(out, func(a, b manifest.CapabilityID) int {
		if a.String() < b.String() {
			return -1
		}
		return 1
	})
	return out
}

// past gives task and trust as they stood at an instant, by the clocks of those
// who signed. Its states are kept, so that looking back costs nothing.
type past struct {
	times  []time.Time
	tasks  []task.Task
	taken  []time.Time // of revocations, in order
	trusts []manifest.Trust
}

func (a *audit) past() *past {
	p := &past{times: []time.Time{{}}, tasks: []task.Task{{}}, taken: []time.Time{{}}, trusts: []manifest.Trust{a.trusts[len(a.trusts)-1]}}
	es := slices.Clone(a.events)
	sort.SliceStable(es, func(i, j int) bool { return es[i].e.At.Before(es[j].e.At) })
	t, waiting := task.Task{}, []*event(nil)
	for _, ev := range es {
		waiting = append(waiting, ev)
		for again := true; again; {
			left := len(waiting)
			waiting = slices.DeleteFunc(waiting, func(w *event) bool {
				next, err := task.Apply(t, w.doc.by)
				var gap *task.GapError
				if errors.As(err, &gap) {
					return false // two clocks disagree about what came first
				}
				t = next
				return true
			})
			again = len(waiting) > 0 && len(waiting) < left
		}
		p.times, p.tasks = append(p.times, ev.e.At.Time()), append(p.tasks, t)
	}
	var rs []*document
	for d := range a.evidence() {
		if _, ok := d.signed.Document().(*manifest.Revocation); ok && !d.by.IsZero() {
			rs = append(rs, d)
		}
	}
	takenAt := func(d *document) time.Time { return d.signed.Document().(*manifest.Revocation).At.Time() }
	sort.SliceStable(rs, func(i, j int) bool { return takenAt(rs[i]).Before(takenAt(rs[j])) })
	for _, d := range rs {
		if next, err := p.trusts[len(p.trusts)-1].Apply(d.by); err == nil {
			p.taken, p.trusts = append(p.taken, takenAt(d)), append(p.trusts, next)
		}
	}
	return p
}

func newest[T any](times []time.Time, of []T, at time.Time) T {
	i := sort.Search(len(times), func(i int) bool { return times[i].After(at) })
	return of[max(0, i-1)]
}

func (p *past) task(at time.Time) task.Task { return newest(p.times, p.tasks, at) }

// trust is what was taken back before the second of an instant.
func (p *past) trust(at time.Time) manifest.Trust {
	return newest(p.taken, p.trusts, at.Truncate(time.Second).Add(-1))
}

// during are the states of the task at an instant, newest first: what was said
// in the same second came before a call or after it, and no time tells which.
func (p *past) during(at time.Time) []task.Task {
	out := []task.Task{p.task(at)}
	second := at.Truncate(time.Second)
	last := sort.Search(len(p.times), func(i int) bool { return !p.times[i].Before(second.Add(time.Second)) })
	for i := last - 1; i > 0 && !p.times[i].Before(second); i-- {
		out = append(out, p.tasks[i-1])
	}
	return out
}
