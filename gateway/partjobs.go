package gateway

import (
	"sealbridge/manifest"
	"sealbridge/manifest/task"
	"sealbridge/policy"
	"sealbridge/policy/approval"
	"sealbridge/signing"
	"sealbridge/spec"
)

// partsWant owes a look at each part of a task that we work on.
func (t *turn) partsWant(row taskRow) error {
	if row.Role != manifest.Worker {
		return nil
	}
	rows, err := parts.Group(t.Tx, row.Key.String())
	for _, r := range rows {
		if err == nil {
			err = t.owe(jobPart, r.Key, nil)
		}
	}
	return err
}

// part does what the state of a part and of the task above it ask for: it looks
// at both and not at the moment, so that it comes to the same after every start.
func (t *turn) part(key string) error {
	row, err := t.row(key)
	if err != nil || row.Parent == "" || row.Recovery != "" {
		return err
	}
	parent, err := t.row(row.Parent)
	if err != nil || parent.Recovery != "" {
		return err
	}
	if used, last := row.lastWord(); last {
		return t.shareBack(&parent, row, used)
	}
	if !t.over(parent) {
		if row.Task.IsZero() {
			return t.handOn(&parent, &row)
		}
		return nil
	}
	const why = "the task that this is a part of has ended"
	if row.Task.IsZero() {
		return t.drop(&row, why)
	}
	if t.over(row) { // its worker's last word is still to come
		return nil
	}
	_, err = t.say(&row, manifest.Cancelled{Reason: why})
	return err
}

// lastWord is what a part of ours has used for good, where that is said: with
// the delivery that was judged, else with its worker's last word; nothing where
// it never left us or was not taken (B3).
func (r taskRow) lastWord() (used manifest.Meters, last bool) {
	if r.Task.IsZero() {
		return used, r.Dropped != ""
	}
	if u := r.Task.Usage(); u != nil {
		used = u.Meters
	}
	switch endOf(r.Task, manifest.Requester) {
	case manifest.KindCompleted, manifest.KindRejected:
		return used, true
	}
	switch endOf(r.Task, manifest.Worker) {
	case manifest.KindDeclined:
		return manifest.Meters{}, true
	case manifest.KindFailed:
		return used, true
	}
	return used, r.Task.Stopped() || r.Untaken
}

// shareBack charges the task above with what a part has used and frees the rest, once (B3).
func (t *turn) shareBack(parent *taskRow, row taskRow, used manifest.Meters) error {
	l, err := t.ledger(t.meterAccounts(parent.Key))
	if err != nil {
		return err
	}
	ms := policy.SettleShare(l, parent.Key, row.digest(), used)
	if len(ms) == 0 { // it came back before, or with a no
		return t.regrow(parent)
	}
	if err := t.move(l, ms); err != nil {
		return err
	}
	if err := t.note(parent.Key.String(), map[string]string{"part": row.Key.ID.String(), "share": "back"}); err != nil {
		return err
	}
	return t.regrow(parent)
}

// handOn takes the next step of a part that has not left us: the second
// decision, then the proposal.
func (t *turn) handOn(parent, row *taskRow) error {
	child := row.digest()
	var said Said
	var err error
	switch k, ok := newestAsk(parent.Task, child); {
	case !ok || k.Status == task.AskOpen:
		return nil
	case delegatedIn(parent.Task, child):
		_, err = t.sayProposal(row)
	case k.Status == task.AskNo:
		return t.dropPart(row, k.Reason)
	case parent.Task.State() != task.Working:
		return nil // looked at again when the turn is back
	default:
		var fact manifest.Fact
		if fact, err = t.delegating(*row, k); err == nil {
			said, err = t.say(parent, fact)
		}
	}
	if known, no := denial(err); no {
		t.g.Log.Info("not handing on", "task", row.Key.ID.String(), "word", known.Reason, "limit", known.Limit)
		return t.dropPart(row, string(known.Reason))
	}
	if err == nil && said.Outcome == policy.Allow {
		err = t.owe(jobPart, row.Key.String(), nil) // proposed next, in a turn of its own
	}
	return err
}

func newestAsk(t task.Task, child signing.Digest) (found task.Ask, ok bool) {
	for _, a := range t.Asks() {
		if a.Child == child {
			found, ok = a, true
		}
	}
	return found, ok
}

func delegatedIn(t task.Task, child signing.Digest) bool {
	for _, c := range t.Children() {
		if c.Manifest == child {
			return true
		}
	}
	return false
}

func (t *turn) delegating(row taskRow, k task.Ask) (manifest.Fact, error) {
	m := row.contract()
	f := manifest.Delegated{Child: k.Child, Reserved: m.Budget.Limits(), Answer: k.Answer}
	var err error
	if len(m.Permissions.GrantedCapabilities) > 0 {
		f.Worker, err = t.introduce(m.Worker.AgentDid)
	}
	return f, err
}

// delegatingAgain makes the intent that waited for our owner again: it is the child whose subject the person saw.
func (t *turn) delegatingAgain(parent taskRow, subject signing.Digest) (manifest.Fact, *taskRow, error) {
	above, _ := parent.Task.Contract()
	rows, err := parts.Group(t.Tx, parent.Key.String())
	if err != nil {
		return nil, nil, err
	}
	for _, r := range rows {
		k, ok := newestAsk(parent.Task, r.V)
		if !ok || k.Part == nil || k.Status != task.AskYes {
			continue
		}
		var first *signing.Digest
		if !k.AnswerDecision.IsZero() {
			first = &k.AnswerDecision
		}
		if policy.ChildSubject(k.Base, *k.Part, above, first) != subject {
			continue
		}
		row, err := t.row(r.Key)
		if err != nil {
			return nil, nil, err
		}
		f, err := t.delegating(row, k)
		return f, &row, err
	}
	return nil, nil, spec.Refuse(spec.Conflict, "", "G11: nobody would hand that on any more")
}

// dropPart ends a part that never left us, and says why.
func (t *turn) dropPart(row *taskRow, why string) error {
	if err := t.withdraw(row.Key.String(), why); err != nil {
		return err
	}
	row.Dropped = orWhy(why, string(spec.GateDenied))
	if err := t.note(row.Key.String(), map[string]string{"dropped": row.Dropped}); err != nil { // whoever watches sees it
		return err
	}
	return t.putRow(*row)
}

// receipts are what a usage receipt says of the parts of a task: the digests of
// their receipts, and which have none or are still at work (B7).
func (t *turn) receipts(row taskRow) (children []signing.Digest, missing []string, err error) {
	children, missing = []signing.Digest{}, []string{}
	for _, c := range row.Task.Children() {
		part, ok, err := t.partOf(row, c.Manifest)
		if err != nil {
			return nil, nil, err
		}
		switch digest, there, err := t.receiptOf(part); {
		case err != nil:
			return nil, nil, err
		case there:
			children = append(children, digest)
		case ok:
			missing = append(missing, part.Key.ID.String()+": "+t.whyNone(part))
		default:
			missing = append(missing, c.Manifest.String()+": not held here")
		}
	}
	return children, missing, nil
}

func (t *turn) whyNone(part taskRow) string {
	if _, last := part.lastWord(); last {
		return "ended without a receipt"
	}
	return "not ended, its whole share is counted"
}

// partOf is the part of a task with that contract.
func (t *turn) partOf(row taskRow, child signing.Digest) (part taskRow, ok bool, err error) {
	rows, err := parts.Group(t.Tx, row.Key.String())
	if err != nil {
		return part, false, err
	}
	for _, r := range rows {
		if r.V == child {
			part, err = t.row(r.Key)
			return part, err == nil, err
		}
	}
	return part, false, nil
}

// receiptOf is the digest of the receipt that came with the delivery that ended a part.
func (t *turn) receiptOf(part taskRow) (digest signing.Digest, ok bool, err error) {
	if k := endOf(part.Task, manifest.Requester); k != manifest.KindCompleted && k != manifest.KindRejected {
		return digest, false, nil
	}
	d, err := t.deliveryOf(part)
	if err != nil || d.Receipt == nil {
		return digest, false, err
	}
	return signing.DigestOf(d.Receipt.Bytes()), true, nil
}

// thirdIn is what a card says of a chain: how many are above a task, and our own
// name for the owner who would do a part of it.
func (t *turn) thirdIn(row taskRow, c policy.Case, x *approval.Terms) error {
	x.Above = len(row.Task.Passes())
	if row.Task.Manifest().Permissions.MaxDelegationDepth > 0 {
		x.Above--
	}
	part := (*manifest.Child)(nil)
	switch f := c.Event.Body.Fact.(type) {
	case manifest.Answered:
		if k, ok := row.Task.Ask(f.Ask); ok {
			part = k.Part
		}
	case manifest.Delegated:
		if k, ok := newestAsk(row.Task, f.Child); ok {
			part = k.Part
		}
	}
	if part == nil {
		return nil
	}
	m, err := part.Contract()
	if err == nil {
		x.Third = t.trust.Contacts[m.Worker.OwnerDid].Name
	}
	return err
}
