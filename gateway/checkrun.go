package gateway

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"sealbridge/gateway/artifact"
	"sealbridge/gateway/runner"
	"sealbridge/manifest"
	"sealbridge/signing"
	"sealbridge/spec"
)

// Bounds of a command that is run over a delivery (M6).
const (
	checkTime   = 2 * time.Minute // where the configuration says nothing: a test suite of a small project
	checkStdout = 64 << 10        // bytes; one that prints more has not passed
	checkFiles  = 64 << 20        // bytes of a file that it writes, beside its copies
	maxPrinted  = 1000            // bytes that our owner is shown of what it printed
)

// mayRun says whether the owner's rules list a command: those in force, and
// while a change waits for its yes also those that it would bring (G12).
func (t *turn) mayRun(line string) bool {
	w := t.law.Waiting
	return t.law.Policy.MayRun(line) && (w == nil || w.Policy.MayRun(line))
}

// runCheck runs one command over a delivery in a box of this gateway: no
// network, copies of the inputs in the folder in and of the delivery in the
// folder out, the structured result on stdin and in out/result.json. What the
// line names by an absolute path is shown there, for reading. Where the rules do
// not list the line, or this machine has no box, it is not evaluated. An error
// is a fault of this machine.
func (g *Gateway) runCheck(ctx context.Context, x examination, c manifest.Check, got *manifest.CheckResult) (printed string, err error) {
	got.Result = notRun
	argv, err := manifest.SplitCommand(c.Target)
	switch {
	case err != nil:
		got.Text = "M6: not a command by the one rule"
		return "", nil
	case !x.may[c.Target]:
		got.Text = "M6: the requester's rules do not list this command"
		return "", nil
	case g.Runner == nil || g.Runner.Isolation(runner.Subprocess).Enforced != "gateway":
		got.Text = "M6: the requester's machine has no box to run it in"
		return "", nil
	}
	cmd, err := g.checkCommand(ctx, x, argv)
	if err != nil {
		return "", err
	}
	res, err := g.Runner.Run(ctx, cmd)
	defer func() { res.Close() }()
	var known *spec.Error
	switch {
	case ctx.Err() != nil:
		return "", spec.Refuse(spec.Unavailable, "", "the check was stopped")
	case errors.As(err, &known) && known.Path == "/argv":
		got.Text = "M6: " + known.Limit
		return "", nil
	case err != nil:
		return "", err
	}
	judgeRun(c, res, cmd.WallClock, got)
	return cut(strings.ToValidUTF8(string(res.Stdout)+string(res.StderrTail), "\uFFFD"), maxPrinted), nil
}

// checkCommand is one run over copies of the files.
func (g *Gateway) checkCommand(ctx context.Context, x examination, argv []string) (runner.Command, error) {
	c := runner.Command{Argv: argv, Inputs: map[string]string{}, Delivered: map[string]string{}, Stdin: x.delivery.Output.Bytes(),
		WallClock: g.CheckTime, StdoutLimit: checkStdout, FilesLimit: checkFiles}
	if c.WallClock <= 0 {
		c.WallClock = checkTime
	}
	for _, word := range argv[1:] {
		if filepath.IsAbs(word) && filepath.Clean(word) != "/" {
			c.ReadOnly = append(c.ReadOnly, word)
		}
	}
	delivered, err := g.withResult(ctx, x.delivery)
	if err != nil {
		return c, err
	}
	for _, set := range []struct {
		refs []manifest.ArtifactRef
		to   map[string]string
	}{{x.manifest.IO.InputArtifacts, c.Inputs}, {delivered, c.Delivered}} {
		for _, ref := range set.refs {
			if set.to[ref.Name], err = g.Files.Path(ref.Digest); err != nil {
				return c, err
			}
		}
	}
	return c, nil
}

// withResult are the files of a delivery with its structured result beside them.
func (g *Gateway) withResult(ctx context.Context, d manifest.Delivery) ([]manifest.ArtifactRef, error) {
	files := append([]manifest.ArtifactRef(nil), d.Artifacts...)
	for _, f := range files {
		if strings.EqualFold(f.Name, resultFile) || strings.HasPrefix(strings.ToLower(f.Name), resultFile+"/") {
			return files, nil
		}
	}
	ref, err := g.Files.Put(ctx, resultFile, "application/json", strings.NewReader(d.Output.String()), artifact.MaxSize)
	return append(files, ref), err
}

// judgeRun says what a run comes to. Running out of time and printing too much
// are answers of their own, and neither is a pass (B022).
func judgeRun(c manifest.Check, res runner.Result, most time.Duration, got *manifest.CheckResult) {
	run := &manifest.CheckRun{Exit: int64(max(-1, min(res.Exit, 255))), TimedOut: res.TimedOut, Millis: min(res.Wall.Milliseconds(), 3_600_000), Box: res.Isolation,
		Output: signing.DigestOf(append(append([]byte(nil), res.Stdout...), res.StderrTail...))}
	got.Run, got.Result = run, failed
	took := " after " + (time.Duration(run.Millis) * time.Millisecond).String()
	switch {
	case res.TimedOut:
		got.Text = "timed out: more than " + most.String()
	case res.Overflowed:
		got.Text = fmt.Sprintf("printed more than %d KiB", checkStdout>>10)
	case res.Cancelled:
		got.Text = "stopped"
	case run.Passes(c):
		got.Result, got.Text = passed, fmt.Sprintf("exit %d%s", run.Exit, took)
	default:
		got.Text = fmt.Sprintf("exit %d, want %d%s", run.Exit, c.Expects(), took)
	}
}
