package gateway

import (
	"time"

	"sealbridge/manifest"
	"sealbridge/manifest/task"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// wants owes what the state of a task asks of this side. It looks at the state
// and not at the moment, so that it is the same after every start (Act).
func (t *turn) wants(row taskRow) error {
	if row.Task.IsZero() || row.Recovery != "" {
		return nil
	}
	key := row.Key.String()
	if row.Parent != "" {
		if err := t.owe(jobPart, key, nil); err != nil {
			return err
		}
	}
	if err := t.partsWant(row); err != nil {
		return err
	}
	if row.Role == manifest.Requester && row.Task.Outcome(t.now) == "" {
		if err := t.oweAt(jobDeadline, key, row.Task.Deadline(), nil); err != nil {
			return err
		}
	}
	if len(t.spent(row)) > 0 || t.over(row) && (len(row.Keys) > 0 || t.g.underWay(key)) {
		if err := t.owe(jobForget, key, nil); err != nil {
			return err
		}
	}
	owes, err := t.owesTokens(row)
	if err == nil && owes {
		err = t.owe(jobGrant, key, nil)
	}
	if err == nil && row.Role == manifest.Worker && row.Task.Outcome(t.now) == "" && !fetched(row, row.Answers) {
		err = t.owe(jobFetch, key, nil)
	}
	if err != nil {
		return err
	}
	if !row.Task.Ended() && !row.Task.Broken() && len(row.asked()) > 0 {
		if err := t.owe(jobAnswer, key, nil); err != nil {
			return err
		}
	}
	for _, kind := range t.next(row) {
		if err := t.owe(kind, key, nil); err != nil {
			return err
		}
	}
	return nil
}

// next lists the jobs that the state asks for.
func (t *turn) next(row taskRow) (kinds []string) {
	end := endOf(row.Task, manifest.Requester)
	if row.Task.Broken() { // said disputed in the step that found it; the requester can still end the task
		return nil
	}
	if row.Role == manifest.Worker {
		switch {
		case end == manifest.KindCancelled || end == manifest.KindTimedOut:
			return []string{jobStop}
		case row.Task.Ended():
			return nil
		case row.Task.State() == task.Proposed:
			return []string{jobAccept}
		case row.Task.State() == task.Accepted:
			if !fetched(row, row.Task.Manifest().IO.InputArtifacts) {
				return []string{jobFetch}
			}
			if row.Session { // its agent starts when it comes
				return nil
			}
			return []string{jobStart}
		case row.Task.State() == task.Working:
			if row.Session {
				return nil
			}
			return []string{jobRun}
		case row.Task.State() == task.Delivered:
			return []string{jobUpload}
		}
		return nil
	}
	switch {
	case end == manifest.KindCompleted:
		if !row.Released {
			return []string{jobRelease}
		}
	case row.Task.Ended():
	case row.Breach != "" && row.Task.State() != task.Delivered, t.lost(row) != "":
		return []string{jobCancel}
	case row.Task.State() == task.Accepted:
		return []string{jobUpload}
	case row.Task.State() == task.Delivered:
		if d, err := t.deliveryOf(row); err == nil && fetched(row, d.Artifacts) {
			return []string{jobCheck}
		}
		return []string{jobFetch}
	}
	return nil
}

func endOf(t task.Task, r manifest.Role) manifest.Kind {
	for _, e := range t.Endings() {
		if e.By == r {
			return e.Kind
		}
	}
	return ""
}

// fetched says whether every file is here and checked.
func fetched(row taskRow, refs []manifest.ArtifactRef) bool {
	for _, r := range refs {
		if !row.Here[r.Digest.String()] {
			return false
		}
	}
	return true
}

// factOf makes again the intent that waited for a gate: it is derived from the row and kept nowhere else.
func (t *turn) factOf(row taskRow, r askRow) (manifest.Fact, error) {
	switch r.Kind {
	case manifest.KindProposed:
		return t.proposal(row)
	case manifest.KindAccepted:
		return t.acceptance(row)
	case manifest.KindAsked:
		return t.asking(row)
	case manifest.KindAnswered:
		return t.answering(row, r.Ask.SubjectDigest)
	case manifest.KindDelegated:
		f, _, err := t.delegatingAgain(row, r.Ask.SubjectDigest)
		return f, err
	case manifest.KindProgressed:
		return t.openingOf(row, r.Ask.SubjectDigest)
	case manifest.KindCompleted:
		d := row.Task.Delivery()
		if d == nil || row.Report == nil || row.Report.Delivery != d.Digest {
			return nil, spec.Refuse(spec.Conflict, "", "the delivery was replaced")
		}
		return manifest.Completed{Delivery: d.Digest, Report: *row.Report}, nil
	}
	return nil, spec.Refuse(spec.Internal, "", "no such intent")
}

func (t *turn) proposal(row taskRow) (manifest.Fact, error) {
	var m manifest.TaskManifest
	if err := jcs.Decode(row.Proposal, &m); err != nil {
		return nil, err
	}
	b, payload, err := manifest.SignManifest(m, manifest.Requester, t.g.Agent, t.now)
	if err != nil {
		return nil, err
	}
	return manifest.Proposed{Manifest: payload, Signature: b, Passes: row.Passes, Group: row.Together}, nil
}

// acceptance says yes to a contract, with what this gateway can hold to (X6).
func (t *turn) acceptance(row taskRow) (manifest.Fact, error) {
	b, _, err := manifest.SignManifest(row.Task.Manifest(), manifest.Worker, t.g.Agent, t.now)
	if err != nil {
		return nil, err
	}
	agent, ok := t.rules.Agents[row.Agent]
	if !ok {
		return nil, spec.Refuse(spec.PolicyDenied, "", "no agent works for others: sealbridge agent add")
	}
	a := manifest.Accepted{Signature: b, Isolation: t.isolationOf(agent), Model: agent.model(), Providers: t.rules.labelsOf(agent)}
	if a.Model == modelDoor {
		err = t.doorFor(agent)
	}
	if missing := without(agent.Hosts, row.Task.Manifest().SandboxPolicy.AllowedHosts); a.Model == modelOwn && !agent.Session && len(missing) > 0 {
		err = spec.Refuse(spec.UnsupportedIsolation, "/sandboxPolicy/allowedHosts", "the agent's own model needs "+missing[0])
	}
	return a, err
}

// deliveryOf is the newest delivery, read from the event that brought it.
func (t *turn) deliveryOf(row taskRow) (manifest.Delivery, error) {
	want := row.Task.Delivery()
	wires, err := t.events(row.Key.String())
	if err != nil || want == nil {
		return manifest.Delivery{}, err
	}
	for i := len(wires) - 1; i >= 0; i-- {
		s, err := manifest.OpenValue(wires[i], t.g.keys)
		if err != nil {
			return manifest.Delivery{}, err
		}
		e, ok := s.Document().(*manifest.Event)
		if !ok {
			continue
		}
		if f, ok := e.Body.Fact.(manifest.Delivered); ok && task.DigestOf(f.Delivery) == want.Digest {
			return f.Delivery, nil
		}
	}
	return manifest.Delivery{}, spec.Refuse(spec.NotFound, "", "the delivery")
}

// send keeps a document until it is acknowledged and sends it from now on (R4).
func (t *turn) send(to signing.DID, s manifest.Signed, ticket, taskKey string, seq int64) error {
	key := documentKey(s.Digest(), to)
	if err := outbox.Put(t.Tx, key, taskKey, outRow{To: to, Wire: s.Wire(), Ticket: ticket, Task: taskKey, Seq: seq}); err != nil {
		return err
	}
	return t.owe(jobSend, key, nil)
}

// pauseAfter is backoff, but short where something was not there: a relay that
// stood still for minutes is back at any moment, and then mail goes on in seconds.
func pauseAfter(err error, tries int) time.Duration {
	if spec.ReasonOf(err) == spec.Unavailable {
		return min(backoff(tries), awayAgain)
	}
	return backoff(tries)
}

const awayAgain = 15 * time.Second

// backoff is how long a thing that did not work waits: doubling from a second to five minutes.
func backoff(tries int) time.Duration {
	return min(time.Second<<min(tries, 9), 5*time.Minute)
}
