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

// doCheck verifies a delivery (V2) and says what follows: a person is asked, or it goes back.
func (g *Gateway) doCheck(ctx context.Context, jb journal.Job) error {
	return g.turn(ctx, func(t *turn) error {
		row, err := t.row(jb.Key)
		if err != nil || row.Task.State() != task.Delivered || row.Task.Ended() {
			return err
		}
		d, err := t.deliveryOf(row)
		if err != nil {
			return err
		}
		digest := row.Task.Delivery().Digest
		if row.Report == nil || row.Report.Delivery != digest { // one report for one delivery, also after a stop
			r := g.report(row, d, digest)
			r.At = signing.TimeOf(t.now)
			row.Report, row.Opened, row.Same = &r, false, policy.Sameness(d)
			if err := t.putRow(row); err != nil {
				return err
			}
		}
		return t.judge(&row)
	})
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

// report evaluates every check of the contract; what was not evaluated did not pass.
func (g *Gateway) report(row taskRow, d manifest.Delivery, digest signing.Digest) manifest.Report {
	m := row.Task.Manifest()
	r := manifest.Report{Delivery: digest, Contract: d.Contract, Mode: m.Verification.Mode, Verdict: passed}
	add := func(check, kind, result, text string) {
		r.Checks = append(r.Checks, manifest.CheckResult{Check: check, Kind: kind, Result: result, Text: cut(text, 500)})
		if result != passed {
			r.Verdict = failed
		}
	}
	result, text := passed, ""
	for _, ref := range d.Artifacts {
		if !g.Files.Has(ref.Digest) {
			result, text = failed, ref.Name+" is not here"
		}
	}
	add("files", "digests", result, text)
	result, text = passed, ""
	if why := checkOutput(m.IO.OutputSchema, d.Output); why != "" {
		result, text = failed, why
	}
	add("output", "schema", result, text)
	result, text = coverage(m, d)
	add("coverage", "criteria", result, text)
	for _, c := range m.Verification.Checks {
		if c.Kind == "human_review" {
			continue // the decision of DELIVERY_ACCEPT itself
		}
		result, text = evaluate(m, d, c)
		add(c.CheckID.String(), c.Kind, result, text)
	}
	return r
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
