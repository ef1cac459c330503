package audit

import (
	"fmt"
	"slices"
	"sort"
	"time"

	"sealbridge/manifest"
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
