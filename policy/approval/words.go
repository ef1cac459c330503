package approval

import (
	"fmt"
	"slices"
	"strings"

	"sealbridge/manifest"
	"sealbridge/manifest/task"
	"sealbridge/policy"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// words fills in what a card says. Every text of others that comes into a line
// of ours goes through [manifest.Display].
type words struct {
	a   *Ask
	m   manifest.TaskManifest
	x   Terms
	who string
}

func (w *words) say(c policy.Case) error {
	w.a.Risk, w.a.Lines, w.a.Theirs = []string{}, []Line{}, []Text{}
	switch f := c.Event.Body.Fact.(type) {
	case manifest.Proposed:
		if c.Opens {
			w.openly()
			break
		}
		w.propose(c)
	case manifest.Accepted:
		w.accept(f)
	case manifest.Asked:
		if f.Amendment != nil {
			w.amend(c.Task.InForce(), *f.Amendment, true)
		}
	case manifest.Answered:
		k, ok := c.Task.Ask(f.Ask)
		if ok && k.Part != nil {
			return w.handOn(*k.Part, false)
		}
		if ok && k.Amendment != nil {
			w.amend(c.Task.InForce(), *k.Amendment, false)
		}
	case manifest.Delegated:
		for _, k := range c.Task.Asks() {
			if k.Answer == f.Answer && k.Part != nil {
				return w.handOn(*k.Part, true)
			}
		}
		return spec.Refuse(spec.Internal, "", "G11: no yes to this child")
	case manifest.Progressed:
		if f.Opens != nil {
			w.open(*f.Opens)
		}
	case manifest.Completed:
		return w.deliver(f)
	default:
		return spec.Refuse(spec.Internal, "", "G1: no gate stands before "+string(f.Kind()))
	}
	return nil
}

func (w *words) line(mark Mark, word, text string, rest ...string) {
	l := Line{Mark: mark, Word: word, Text: cut(text, maxLine)}
	for i, r := range rest {
		if i == 0 {
			l.More = cut(r, maxLine)
		} else {
			l.Was = cut(r, maxLine)
		}
	}
	w.a.Lines = append(w.a.Lines, l)
}

func (w *words) risk(names ...string) { w.a.Risk = append(w.a.Risk, names...) }

// propose asks our owner whether our own proposal may leave.
func (w *words) propose(c policy.Case) {
	w.a.Question = fmt.Sprintf("Send this task to %s?", w.who)
	w.a.Effect = fmt.Sprintf("Your gateway signs the contract and it goes to %s; the files follow when %s has accepted.", w.who, w.who)
	w.files("send", "to "+w.who)
	w.line(Newly, "tell", "title, description and criteria, as below")
	w.hosts(": by " + w.who + "'s agent, and what it has of you can go there")
	w.spend(w.who)
	w.asked()
	w.lend()
	w.repeat()
	w.line(Newly, "get", "a JSON result, and files if there are any; you look before your agent has them")
	if len(w.x.Chosen) > 0 {
		w.line(Newly, "chosen", strings.Join(w.x.Chosen, ", ")+": by this gateway, because whoever asked did not say")
	}
	if s := w.m.SandboxPolicy; s.AllowSubprocessFallback != nil && *s.AllowSubprocessFallback { // X10
		w.line(Newly, "box", "a subprocess will do where "+w.who+"'s gateway has no "+box(s.IsolationLevel))
	}
	if c.ClaimedIsEnough { // X6: what the requester gives up stands on her card
		w.line(Newly, "trust", w.who+"'s word on the box: the draft says that an isolation nobody enforces is enough")
	}
	w.deeper(w.who)
	tools, here := "use your tools", "run anything here"
	if len(w.m.Permissions.GrantedCapabilities) > 0 {
		tools = "use any other tool of yours"
	}
	if lines := commands(w.m); len(lines) > 0 { // M6
		w.line(Newly, "run", quotedList(lines)+" here over what comes back, boxed: no network, copies of the files", strings.Join(lines, "; "))
		here = "run anything else here"
	}
	w.line(Cannot, "cannot", w.onward(tools+", "+here))
	w.contractRisk()
	w.contractText()
}

// accept asks our owner whether our agent may work for the other side.
func (w *words) accept(f manifest.Accepted) {
	w.a.Question = fmt.Sprintf("Let %s work for %s?", quoted(manifest.Display(orText(w.x.Agent, "your agent"), 60)), w.who)
	w.a.Effect = "Your agent's gateway signs the contract; from then on it binds both sides."
	agent := manifest.Display(orText(w.x.Agent, "your agent"), 60)
	if f.Isolation.Enforced == "gateway" {
		w.line(Newly, "run", agent+", boxed by this gateway ("+box(f.Isolation.Level)+"): "+network(w.m.SandboxPolicy)+", own workspace")
	} else {
		w.line(Newly, "run", agent+", NOT boxed by this gateway: it can do what your user can")
	}
	w.files("read", "from "+w.who)
	w.hosts("")
	w.spend("you")
	w.others()
	w.mayCall()
	w.repeat()
	if len(f.Providers) > 0 {
		w.line(Newly, "learn", manifest.Display(strings.Join(f.Providers, ", "), 300)+" reads the files and the text below")
	}
	w.line(Newly, "return", "a JSON result and files")
	if lines := commands(w.m); len(lines) > 0 {
		w.line(Newly, "judged", "by "+quotedList(lines)+", which "+w.who+" runs over the result; nothing of it runs here", strings.Join(lines, "; "))
	}
	w.deeper("you")
	host := "reach a host"
	if len(w.m.SandboxPolicy.AllowedHosts) > 0 {
		host = "reach another host"
	}
	w.line(Cannot, "cannot", w.onward(host+", use your tools, see other tasks"))
	w.contractRisk()
	w.contractText()
}

// commands are the lines that the requester's gateway can run over a delivery; no other is one (M6).
func commands(m manifest.TaskManifest) (lines []string) {
	for _, c := range m.Verification.Checks {
		if _, err := manifest.SplitCommand(c.Target); c.Kind == manifest.CommandCheck && err == nil && !slices.Contains(lines, c.Target) {
			lines = append(lines, c.Target)
		}
	}
	return lines
}

// commandOf is the line of a check.
func commandOf(m manifest.TaskManifest, check string) string {
	for _, c := range m.Verification.Checks {
		if c.CheckID.String() == check {
			return c.Target
		}
	}
	return check
}

func quotedList(lines []string) string {
	out := make([]string, len(lines))
	for i, l := range lines {
		out[i] = quoted(l)
	}
	return strings.Join(out, ", ")
}

func (w *words) contractRisk() {
	w.a.Risk = append([]string{"external"}, w.a.Risk...)
	if len(w.m.Permissions.GrantedCapabilities) > 0 {
		w.risk("credential")
	}
	if len(w.m.IO.InputArtifacts) > 0 {
		w.risk("privacy")
	}
	if w.m.Budget.CostBearer != "worker_byok" || !w.m.Budget.SettlementExtension.IsZero() {
		w.risk("financial")
	}
}

// files says which files move, wider where they are more than at the last yes.
func (w *words) files(word, tail string) {
	refs := w.m.IO.InputArtifacts
	if w.x.Last != nil && moreFiles(refs, w.x.Last.IO.InputArtifacts) {
		w.line(Wider, word, files(refs, tail), w.names(), files(w.x.Last.IO.InputArtifacts, tail))
		return
	}
	w.line(Newly, word, files(refs, tail), w.names())
}

// repeat says what else changed since the last yes to this contact, or that nothing is wider.
func (w *words) repeat() {
	last := w.x.Last
	if last == nil {
		return
	}
	had := len(w.a.Lines)
	say := func(word, now, was string, wider bool) {
		if wider {
			w.line(Wider, word, now, "", was)
		}
	}
	a, b := w.m, *last
	say("retries", count(a.Verification.MaxRetries), count(b.Verification.MaxRetries), a.Verification.MaxRetries > b.Verification.MaxRetries)
	say("due", span(a.Deadline.Time().Sub(a.CreatedAt.Time()))+" after it is made", span(b.Deadline.Time().Sub(b.CreatedAt.Time())),
		a.Deadline.Time().Sub(a.CreatedAt.Time()) > b.Deadline.Time().Sub(b.CreatedAt.Time()))
	say("box", box(a.SandboxPolicy.IsolationLevel)+", "+box(a.SandboxPolicy.FilesystemScope), box(b.SandboxPolicy.IsolationLevel)+", "+box(b.SandboxPolicy.FilesystemScope),
		a.SandboxPolicy.IsolationLevel != b.SandboxPolicy.IsolationLevel || a.SandboxPolicy.FilesystemScope != b.SandboxPolicy.FilesystemScope)
	say("cost", a.Budget.CostBearer, b.Budget.CostBearer, a.Budget.CostBearer != b.Budget.CostBearer)
	if fewer := missingGates(b, a); len(fewer) > 0 {
		w.line(Wider, "gates", "the contract does not ask again for "+strings.Join(fewer, ", "))
	}
	if had == len(w.a.Lines) && !w.wider() {
		w.line(Cannot, "repeat", "nothing here is wider than when you last said yes to "+w.who)
	}
}

// box is a level or a scope as drafts spell it.
func box(word string) string {
	if plain, ok := map[string]string{"subprocess_restricted": "subprocess", "oci_container": "container",
		"read_only_inputs": "inputs read only", "ephemeral_workspace_only": "workspace"}[word]; ok {
		return plain
	}
	return word
}

func (w *words) wider() bool {
	for _, l := range w.a.Lines {
		if l.Mark == Wider {
			return true
		}
	}
	return false
}

// missingGates are those that one contract names and another does not.
func missingGates(named, in manifest.TaskManifest) (out []string) {
	for _, g := range named.HITLPolicy.RequiredGates {
		if !in.HITLPolicy.Names(g) {
			out = append(out, string(policy.WordOf(g)))
		}
	}
	return out
}

// contractText points at what the requester's side wrote. On that side it is
// our agent's text, which is data all the same.
func (w *words) contractText() {
	add := func(label, path string) { w.a.Theirs = append(w.a.Theirs, Text{label, "subject", "/manifest" + path}) }
	add("title", "/task/title")
	add("description", "/task/description")
	for i := range w.m.Task.AcceptanceCriteria {
		add(fmt.Sprintf("criterion %d", i+1), fmt.Sprintf("/task/acceptanceCriteria/%d/description", i))
	}
}

// spend says what the worker may use, who pays, what is left, and what was
// allowed last time.
func (w *words) spend(worker string) {
	now := w.m.Budget.Limits()
	more := payer(w.m.Budget.CostBearer, w.a.Side, w.who)
	var left []string
	for _, l := range w.x.Left {
		left = append(left, fmt.Sprintf("%s of %s %s", count(l.After), count(l.Limit), l.Of))
	}
	if len(left) > 0 {
		more += " · after this " + strings.Join(left, ", ") + " are left for " + w.who + " today"
	}
	mark, was := Newly, ""
	if last := w.x.Last; last != nil && wider(now, last.Budget.Limits()) {
		mark, was = Wider, meters(last.Budget.Limits())
	}
	text := meters(now)
	if worker != "you" {
		text = worker + " may use " + text
	}
	w.line(mark, "spend", text, more, was)
}

// amend asks for a changed contract; ours says whether our side asks for it.
func (w *words) amend(now task.Contract, a manifest.Amendment, ours bool) {
	w.a.Question = fmt.Sprintf("Change the contract with %s?", w.who)
	if w.a.Gate == manifest.BudgetGate {
		w.a.Question = fmt.Sprintf("Let the task with %s use more?", w.who)
		if !wider(*a.Budget, now.Limits) {
			w.a.Question = fmt.Sprintf("Let the task with %s use less?", w.who)
		}
	}
	w.a.Effect = "Your yes puts the change in force for both sides."
	if ours {
		w.a.Effect = fmt.Sprintf("Your yes asks %s for the change; it is in force when both owners have said yes.", w.who)
	}
	if a.Budget != nil {
		w.line(Wider, "spend", meters(*a.Budget), payer(w.m.Budget.CostBearer, w.a.Side, w.who), meters(now.Limits))
	}
	if a.Deadline != nil {
		w.line(Wider, "deadline", a.Deadline.String(), "", now.Deadline.String())
	}
	if a.MaxRetries != nil {
		w.line(Wider, "retries", count(*a.MaxRetries), "", count(now.MaxRetries))
	}
	if len(a.Withdraw) > 0 {
		w.line(Wider, "withdraw", fmt.Sprintf("%d granted tools are taken back", len(a.Withdraw)))
	}
	w.line(Cannot, "cannot", "change anything else")
	w.risk("financial")
	if w.a.Gate == manifest.ContractGate {
		w.a.Risk = []string{}
		w.contractRisk()
	}
}

// deliver asks our owner to accept what came back.
func (w *words) deliver(f manifest.Completed) error {
	d := w.x.Delivery
	if d == nil {
		return spec.Refuse(spec.Internal, "/delivery", "G2: the delivery in full")
	}
	v, err := jcs.Encode(*d)
	if err != nil {
		return err
	}
	w.a.Delivery = v
	w.a.Question = fmt.Sprintf("Accept what %s delivered?", w.who)
	w.a.Effect = "The task is completed and the result and files below go to your agent. It cannot be undone."
	for _, c := range f.Report.Checks {
		mark := Passed
		if c.Result != "pass" {
			mark = Yours
		}
		name := c.Kind + " " + c.Check
		if c.Kind == manifest.CommandCheck {
			name = commandOf(w.m, c.Check)
		}
		w.line(mark, "check", manifest.Display(name, 120)+": "+c.Result, manifest.Display(c.Text, 300))
	}
	w.line(Yours, "you", "have looked at the result and the files")
	w.decides()
	w.line(Newly, "release", files(d.Artifacts, "and a JSON result"), artifactNames(d.Artifacts))
	if u := w.x.Usage; u != nil {
		w.line(Newly, "used", meters(u.Meters)+" of "+meters(w.m.Budget.Limits()))
	}
	no := "a no ends the task as rejected"
	if left := w.m.Verification.MaxRetries - d.Revision + 1; left > 0 {
		no = fmt.Sprintf("a no can give %s another try (%d left), same budget", w.who, left)
	}
	w.line(Cannot, "if not", no)
	for i := range d.Evidence {
		w.a.Theirs = append(w.a.Theirs, Text{"evidence " + manifest.Display(d.Evidence[i].Criterion.String(), 60), "delivery", fmt.Sprintf("/evidence/%d/text", i)})
		if len(w.a.Theirs) == maxTheirs {
			break
		}
	}
	if len(w.a.Lines) > maxLines {
		w.a.Lines = w.a.Lines[:maxLines]
	}
	w.risk("irreversible")
	if w.m.Budget.CostBearer == "external_settlement_plugin" {
		w.risk("financial")
	}
	return nil
}
