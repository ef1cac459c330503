package gateway

import (
	"context"
	"encoding/json"
	"maps"
	"time"

	"sealbridge/gateway/journal"
	"sealbridge/spec"
)

// Job kinds: everything that is owed. Each can be done again without harm.
const (
	jobSend      = "send"      // a document that waits for its acknowledgement; key: its digest and whom it goes to
	jobAck       = "ack"       // both heads of a task; key: the task
	jobReply     = "reply"     // an answer that is sent once: refusals, acknowledgements of documents
	jobExpire    = "expire"    // an ask; key: its id
	jobDeadline  = "deadline"  // of a task
	jobNotify    = "notify"    // tell a person that something waits
	jobList      = "list"      // who may put into our mailbox
	jobKey       = "key"       // publish our box-key
	jobRecovered = "recovered" // whether a recovery is over
	jobHistory   = "history"   // ask a peer for both chains
	jobAccept    = "accept"    // decide about a proposal
	jobLine      = "line"      // ask about what waits in line; key: the contact
	jobAnswer    = "answer"    // decide about what the other owner asks
	jobStart     = "start"
	jobRun       = "run"
	jobFetch     = "fetch"
	jobUpload    = "upload"
	jobCheck     = "check"
	jobRelease   = "release"
	jobCancel    = "cancel"
	jobStop      = "stop"
	jobGrant     = "grant"     // say granted
	jobCall      = "call"      // hand a call to a tool of ours; key: its digest
	jobDropCall  = "drop-call" // let go of a recorded answer (C4)
	jobPart      = "part"      // the next step of a part of a task that we work on; key: the part
	jobDismiss   = "dismiss"   // forget who was introduced for a task
	jobForget    = "forget"    // drop sealed files that nobody needs any more
)

const (
	jobsAtOnce = 32          // of all kinds: bounds memory and sockets
	idle       = time.Minute // the loop looks again at least this often
)

// handler does one job; a nil error settles it, another one puts it off.
type handler func(g *Gateway, ctx context.Context, jb journal.Job) error

var handlers map[string]handler

func init() { // the handlers refer to the table through the loop
	handlers = map[string]handler{
		jobSend: (*Gateway).doSend, jobAck: (*Gateway).doAck, jobReply: (*Gateway).doReply,
		jobExpire: inTurn((*turn).expire), jobDeadline: inTurn((*turn).timeOut), jobNotify: (*Gateway).doNotify,
		jobList: (*Gateway).doList, jobKey: (*Gateway).doKey, jobHistory: (*Gateway).doHistory,
		jobAccept: inTurn((*turn).accept), jobAnswer: inTurn((*turn).answer), jobLine: inTurn((*turn).advance), jobStart: inTurn((*turn).startWork), jobRun: (*Gateway).doRun,
		jobFetch: (*Gateway).doFetch, jobUpload: (*Gateway).doUpload, jobCheck: (*Gateway).doCheck,
		jobRelease: inTurn((*turn).release), jobCancel: inTurn((*turn).cancel), jobRecovered: inTurn((*turn).recovered), jobStop: (*Gateway).doStop, jobForget: (*Gateway).doForget,
		jobGrant: inTurn((*turn).grant), jobCall: (*Gateway).doToolCall, jobPart: inTurn((*turn).part), jobDismiss: inTurn((*turn).dismiss), jobDropCall: inTurn((*turn).forgetCall),
	}
}

// inTurn is a job that is one turn of the journal: what it owes anew, of its own kind too, stays owed.
func inTurn(f func(*turn, string) error) handler {
	return func(g *Gateway, ctx context.Context, jb journal.Job) error {
		return g.turn(ctx, func(t *turn) error {
			if err := t.Settle(jb.Kind, jb.Key); err != nil {
				return err
			}
			return f(t, jb.Key)
		})
	}
}

// selfSettled are kinds whose handlers settle their own job, in the turn of its end.
var selfSettled = map[string]bool{jobSend: true, jobExpire: true, jobDeadline: true, jobAccept: true, jobAnswer: true, jobLine: true, jobStart: true, jobRun: true,
	jobRelease: true, jobRecovered: true, jobCancel: true, jobKey: true, jobNotify: true, jobGrant: true, jobCall: true, jobDropCall: true, jobPart: true, jobDismiss: true}

// loop does what is owed until ctx ends.
func (g *Gateway) loop(ctx context.Context) {
	slots := make(chan struct{}, jobsAtOnce)
	for ctx.Err() == nil {
		next := g.dispatch(ctx, slots)
		pause := idle
		if !next.IsZero() {
			pause = max(min(next.Sub(g.Now()), idle), time.Millisecond)
		}
		t := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-g.poke:
		case <-t.C:
		}
		t.Stop()
	}
}

// dispatch starts every job that is due and not under way.
func (g *Gateway) dispatch(ctx context.Context, slots chan struct{}) (next time.Time) {
	g.mu.Lock()
	under := maps.Clone(g.busy) // before looking: what ends meanwhile is seen as it is after its end
	g.mu.Unlock()
	var due []journal.Job
	err := g.Journal.View(ctx, func(tx *journal.Tx) (err error) {
		due, next, err = tx.Due(g.Now(), 500)
		return err
	})
	if err != nil {
		if ctx.Err() == nil {
			g.Log.Error("looking for what is owed", "error", err)
		}
		return g.Now().Add(time.Second)
	}
	for _, jb := range due {
		id := jb.Kind + " " + jb.Key
		if under[id] {
			continue
		}
		g.mu.Lock()
		g.busy[id] = true
		g.mu.Unlock()
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return next
		}
		g.jobs.Go(func() {
			defer func() {
				g.mu.Lock()
				delete(g.busy, id)
				g.mu.Unlock()
				<-slots
				g.wake()
			}()
			g.do(ctx, jb)
		})
	}
	return next
}

func (g *Gateway) do(ctx context.Context, jb journal.Job) {
	h, ok := handlers[jb.Kind]
	if !ok {
		g.Log.Error("a job of an unknown kind", "kind", jb.Kind)
		h = func(*Gateway, context.Context, journal.Job) error { return nil }
	}
	err := h(g, ctx, jb)
	if ctx.Err() != nil || err == nil && selfSettled[jb.Kind] {
		return
	}
	if err != nil {
		g.Log.Info("putting off", "job", jb.Kind, "error", err, "try", jb.Tries+1)
	}
	end := func(tx *journal.Tx) error {
		now, ok, e := tx.JobOf(jb.Kind, jb.Key)
		switch {
		case e != nil || !ok:
			return e
		case err != nil:
			return tx.Postpone(jb.Kind, jb.Key, g.Now().Add(pauseAfter(err, jb.Tries)))
		case now.Gen == jb.Gen:
			return tx.Settle(jb.Kind, jb.Key)
		}
		return nil // owed anew while it was done
	}
	if err := g.Journal.Turn(ctx, end); err != nil && ctx.Err() == nil {
		g.Log.Error("ending a job", "job", jb.Kind, "error", err)
	}
}

func body[T any](jb journal.Job) (v T, err error) {
	if err = json.Unmarshal(jb.Body, &v); err != nil {
		err = &spec.Error{Reason: spec.Internal, Err: err}
	}
	return v, err
}

// start brings the journal up to this configuration, and owes what the state still wants.
func (g *Gateway) start(ctx context.Context) error {
	if _, key, err := g.Secrets.BoxKey(); err == nil && key.CertificateDigest != g.Certificate.Digest() { // a renewal was cut short
		if _, err := g.Secrets.RotateBoxKey(g.Now()); err != nil {
			return err
		}
	}
	return g.turn(ctx, func(t *turn) error {
		if err := t.introduceSelf(); err != nil {
			return err
		}
		if err := t.takePolicy(g.Rules.Policy); err != nil {
			return err
		}
		for _, kind := range []string{jobKey, jobList} {
			if err := t.owe(kind, self, nil); err != nil {
				return err
			}
		}
		if err := t.endUnknownRuns(); err != nil {
			return err
		}
		if err := t.endUnknownToolCalls(); err != nil {
			return err
		}
		rows, err := tasks.Group(t.Tx, groupOpen)
		if err != nil {
			return err
		}
		for _, r := range rows {
			if r.V.Parent != "" {
				if err := t.owe(jobPart, r.Key, nil); err != nil {
					return err
				}
			}
			if r.V.Task.IsZero() {
				continue
			}
			if err := t.endUnknownCalls(r.V); err != nil {
				return err
			}
			if err := t.owe(jobAck, r.Key, nil); err != nil { // for every open task at each start (R4)
				return err
			}
			if err := t.wants(r.V); err != nil {
				return err
			}
		}
		return nil
	})
}

// introduceSelf puts our own certificate and box-key into the trust.
func (t *turn) introduceSelf() error {
	if err := t.setTrust(t.trust); err != nil {
		return err
	}
	return t.presentSelf()
}
