package gateway

import (
	"context"
	"errors"
	"strings"

	"sealbridge/gateway/journal"
	"sealbridge/manifest"
	"sealbridge/manifest/schema"
	"sealbridge/manifest/task"
	"sealbridge/policy"
	"sealbridge/signing"
	"sealbridge/spec"
)

const (
	passed = "pass"
	failed = "fail"
	notRun = "not_evaluated"
)

// doCheck verifies a delivery (V2) and says what follows: a person is asked, or
// it goes back. The checks run outside a turn, because one can be a program;
// what they found is written down once, for the delivery that they looked at.
// After a stop they run again: they change nothing but their own copies.
func (g *Gateway) doCheck(ctx context.Context, jb journal.Job) error {
	var x examination
	err := g.view(ctx, func(t *turn) (err error) { x, err = t.examine(jb.Key); return err })
	if err != nil || !x.due {
		return err
	}
	if x.report == nil {
		moving, done := g.move(ctx, jb)
		defer done()
		if err := g.report(moving, &x); err != nil {
			return err
		}
	}
	return g.turn(ctx, func(t *turn) error {
		row, err := t.row(jb.Key)
		if err != nil || row.Task.State() != task.Delivered || row.Task.Ended() || row.Task.Delivery().Digest != x.digest {
			return err
		}
		if row.Report == nil || row.Report.Delivery != x.digest { // one report for one delivery, also after a stop
			x.report.At = signing.TimeOf(t.now)
			row.Report, row.Opened, row.Printed, row.Same = x.report, false, x.printed, policy.Sameness(x.delivery)
			if err := t.putRow(row); err != nil {
				return err
			}
		}
		return t.judge(&row)
	})
}

// examination is a delivery that is looked at.
type examination struct {
	due      bool
	manifest manifest.TaskManifest
	delivery manifest.Delivery
	digest   signing.Digest
	may      map[string]bool // commands that the rules let run (M6)
	report   *manifest.Report
	printed  map[string]string // what commands printed, by check: for our owner alone
}

// examine gathers what checking a delivery needs, as of now.
func (t *turn) examine(key string) (x examination, err error) {
	row, err := t.row(key)
	if err != nil || row.Task.State() != task.Delivered || row.Task.Ended() {
		return x, err
	}
	if x.delivery, err = t.deliveryOf(row); err != nil {
		return x, err
	}
	x.due, x.manifest, x.digest, x.may, x.printed = true, row.Task.Manifest(), row.Task.Delivery().Digest, map[string]bool{}, map[string]string{}
	for _, c := range x.manifest.Verification.Checks {
		x.may[c.Target] = c.Kind == manifest.CommandCheck && t.mayRun(c.Target)
	}
	if row.Report != nil && row.Report.Delivery == x.digest {
		x.report = row.Report
	}
	return x, nil
}

// judge says completed, or rejected with what failed. Completed is held until the person said yes.
func (t *turn) judge(row *taskRow) error {
	r := *row.Report
	if r.Verdict == passed && row.Breach == "" {
		if waits, err := t.waitsForGroup(*row); err != nil || waits {
			return err
		}
		_, err := t.say(row, manifest.Completed{Delivery: r.Delivery, Report: r})
		return ignoreGate(err)
	}
	m := row.Task.Manifest()
	again := row.Task.Delivery().Revision-1 < m.Verification.MaxRetries
	r.Verdict = failed
	_, err := t.say(row, manifest.Rejected{Delivery: r.Delivery, Report: r, Again: again, Text: cut(failures(r), 2000)})
	return err
}

// ignoreGate: a gate that cannot be asked any more leaves the task to its deadline.
func ignoreGate(err error) error {
	var e *spec.Error
	if errors.As(err, &e) && e.Reason == spec.GateExpired {
		return nil
	}
	return err
}

func failures(r manifest.Report) string {
	var out []string
	for _, c := range r.Checks {
		if c.Result != passed {
			out = append(out, c.Check+": "+c.Text)
		}
	}
	return strings.Join(out, "; ")
}

// report evaluates every check of the contract; what was not evaluated did not
// pass. An error is a fault of this machine: it is tried again.
func (g *Gateway) report(ctx context.Context, x *examination) error {
	m, d := x.manifest, x.delivery
	r := &manifest.Report{Delivery: x.digest, Contract: d.Contract, Mode: m.Verification.Mode, Verdict: passed}
	add := func(c manifest.CheckResult) {
		c.Text = cut(c.Text, 500)
		if r.Checks = append(r.Checks, c); c.Result != passed {
			r.Verdict = failed
		}
	}
	add(g.filesHere(d))
	output := manifest.CheckResult{Check: "output", Kind: "schema", Result: passed}
	if why := checkOutput(m.IO.OutputSchema, d.Output); why != "" {
		output.Result, output.Text = failed, why
	}
	add(output)
	covered := manifest.CheckResult{Check: "coverage", Kind: "criteria"}
	covered.Result, covered.Text = coverage(m, d)
	add(covered)
	for _, c := range m.Verification.Checks {
		got := manifest.CheckResult{Check: c.CheckID.String(), Kind: c.Kind}
		switch c.Kind {
		case "human_review":
			continue // the decision of DELIVERY_ACCEPT itself
		case manifest.CommandCheck:
			printed, err := g.runCheck(ctx, *x, c, &got)
			if err != nil {
				return err
			}
			if printed != "" {
				x.printed[got.Check] = printed
			}
		default:
			got.Result, got.Text = evaluate(m, d, c)
		}
		add(got)
	}
	x.report = r
	return nil
}

// filesHere: every file of the delivery is here, which is only where its digest and size held.
func (g *Gateway) filesHere(d manifest.Delivery) manifest.CheckResult {
	for _, ref := range d.Artifacts {
		if !g.Files.Has(ref.Digest) {
			return manifest.CheckResult{Check: "files", Kind: "digests", Result: failed, Text: ref.Name + " is not here"}
		}
	}
	return manifest.CheckResult{Check: "files", Kind: "digests", Result: passed}
}

// coverage: every required criterion has evidence, or a person looks.
func coverage(m manifest.TaskManifest, d manifest.Delivery) (string, string) {
	for _, c := range m.Verification.Checks {
		if c.Kind == "human_review" {
			return passed, "a person looks"
		}
	}
	if m.Verification.Mode == "human_in_the_loop" || m.Verification.Mode == "hybrid" {
		return passed, "a person looks"
	}
	for _, c := range m.Task.AcceptanceCriteria {
		covered := !c.Required
		for _, e := range d.Evidence {
			covered = covered || e.Criterion == c.ID
		}
		if !covered {
			return failed, "no evidence for " + c.ID.String()
		}
	}
	return passed, ""
}

func evaluate(m manifest.TaskManifest, d manifest.Delivery, c manifest.Check) (string, string) {
	switch c.Kind {
	case "json_schema":
		if c.Target != "output" && c.Target != "result" {
			return notRun, "no such target"
		}
		s, err := schema.Parse(m.IO.OutputSchema)
		if err == nil {
			err = s.Validate(d.Output)
		}
		if err != nil {
			return failed, err.Error()
		}
		return passed, ""
	case "sha256_match":
		want := "sha256:" + strings.TrimPrefix(c.Target, "sha256:")
		for _, a := range d.Artifacts {
			if a.Digest.String() == want {
				return passed, a.Name
			}
		}
		return failed, "no file has this digest"
	}
	return notRun, "this gateway runs no such check"
}

// release hands an accepted result over: from here on whoever asked may read it (V3a).
func (t *turn) release(key string) error {
	row, err := t.row(key)
	if err != nil || row.Released || endOf(row.Task, manifest.Requester) != manifest.KindCompleted {
		return err
	}
	row.Released = true
	if err := t.note(key, map[string]string{"released": row.Task.Delivery().Digest.String()}); err != nil {
		return err
	}
	return t.putRow(row)
}
