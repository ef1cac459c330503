package main

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sealbridge/gateway/home"
	"sealbridge/manifest"
	"sealbridge/policy/audit"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

var _ = register(verifyCommand)

// verdict is one value of `verify --json`: the report, and what only a file has.
type verdict struct {
	audit.Report
	Signers []signerWord `json:"signers,omitempty"` // of a single document, in order
	Files   []fileWord   `json:"files,omitempty"`   // of a folder or zip, all of them

	typed string // the path that was asked for
}

// signerWord is what arithmetic says of one signature block: ok, or the word.
type signerWord struct {
	Role string `json:"role,omitempty"`
	DID  string `json:"did"`
	Word string `json:"word"`
}

// fileWord says what a file of a folder or zip is: evidence, named by the
// evidence, or neither.
type fileWord struct {
	Path   string         `json:"path"` // cleaned
	Digest signing.Digest `json:"digest"`
	Bytes  int64          `json:"bytes"`
	Is     string         `json:"is"`
}

// asked is what the command line asks of verify.
type asked struct {
	trust   []string
	require []string
	at      string
	compare bool
	who     bool
	report  string
}

func verifyCommand(a *app) *cobra.Command {
	var q asked
	c := &cobra.Command{
		Use:     "verify PATH…",
		GroupID: "check",
		Short:   "say offline whether evidence holds: a file, folder, zip, NDJSON, or - for stdin",
		Long: "Three answers: verified (whatever is there holds), binding (nothing that a contract\n" +
			"needs is absent), and whether the owners' keys are known to you. Exit 0 when verified\n" +
			"and what --require asks, 1 when not, 2 when the input is no evidence at all.",
		Example: "  sealbridge verify acme.zip --trust parties.yaml --require binding,known --report case.html\n" +
			"  sealbridge verify acme.json borealis.json --compare",
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return a.verify(args, q) },
	}
	f := c.Flags()
	f.StringArrayVar(&q.trust, "trust", nil, "owner keys that you confirmed: a parties.yaml, or NAME=DID")
	f.StringSliceVar(&q.require, "require", nil, "binding, known: needed for exit 0 besides verified")
	f.StringVar(&q.at, "at", "", "look at deadlines from this instant, as 2026-11-30T10:00:00Z")
	f.BoolVar(&q.compare, "compare", false, "hold two files of one task against each other")
	f.BoolVar(&q.who, "who", false, "list the owners' keys with their fingerprints, to be read back to them")
	f.StringVar(&q.report, "report", "", "write the report as a printable HTML page too")
	return c
}

func (a *app) verify(paths []string, q asked) error {
	o, err := options(q)
	if err != nil {
		return err
	}
	if q.compare && len(paths) != 2 {
		return usage("--compare takes two paths")
	}
	done := a.working("checking the evidence")
	var all []verdict
	var inputs []audit.Input
	for _, p := range paths {
		vs, in, ferr := a.verifyPath(p, o, q.report != "")
		if err = ferr; err != nil {
			break
		}
		all, inputs = append(all, vs...), append(inputs, in)
	}
	done()
	if err != nil {
		return err
	}
	if q.compare && len(all) != 2 {
		return usage("--compare takes two paths with one bundle each")
	}
	if q.report != "" {
		if err := a.writeReport(paths, all, inputs, q); err != nil {
			return err
		}
	}
	if q.compare {
		return a.compare(all, q)
	}
	if err := a.show(all, q); err != nil {
		return err
	}
	for _, v := range all {
		if !v.passes(q.require) {
			return errNo
		}
	}
	return nil
}

// passes says whether v is verified and what is asked besides.
func (v verdict) passes(require []string) bool {
	ok := v.Verified
	for _, r := range require {
		ok = ok && (r != "binding" || v.Binding) && (r != "known" || v.Known == "all")
	}
	return ok
}

func options(q asked) (o audit.Options, err error) {
	o = audit.Options{Trust: map[signing.DID]audit.Known{}, Cores: runtime.NumCPU()}
	for _, r := range q.require {
		if r != "binding" && r != "known" {
			return o, usage("--require takes binding, known")
		}
	}
	if q.at != "" {
		at, err := time.Parse(time.RFC3339, q.at)
		if err != nil {
			return o, usage("--at takes an instant such as 2026-11-30T10:00:00Z")
		}
		o.At = &at
	}
	for _, t := range q.trust {
		if err := trust(o.Trust, t); err != nil {
			return o, err
		}
	}
	return o, nil
}

// party is one line of parties.yaml.
type party struct {
	Name    string `yaml:"name"`
	Owner   string `yaml:"owner"`
	Learned string `yaml:"learned"`
}

// trustPair takes NAME=DID apart, or says that it is the name of a file.
func trustPair(arg string) (pair [2]string, ok bool) {
	name, did, ok := strings.Cut(arg, "=did:key:")
	return [2]string{name, "did:key:" + did}, ok
}

// trust reads NAME=DID or a parties.yaml.
func trust(into map[signing.DID]audit.Known, arg string) error {
	if pair, ok := trustPair(arg); ok {
		name := pair[0]
		d, err := signing.ParseDID(pair[1])
		if err != nil {
			return spec.At("--trust ", err)
		}
		into[d] = audit.Known{Name: name, Learned: "the command line"}
		return nil
	}
	var ps []party
	if err := home.ReadYAML(arg, &ps); err != nil {
		return err
	}
	for i, p := range ps {
		line := home.LineOf(arg, fmt.Sprintf("/%d/owner", i))
		d, err := signing.ParseDID(p.Owner)
		if err != nil || p.Name == "" {
			return spec.Refuse(spec.Malformed, arg+":"+line, "name, and owner as did:key:z6Mk…")
		}
		learned := filepath.Base(arg) + ":" + line
		if p.Learned != "" {
			learned += ", " + p.Learned
		}
		into[d] = audit.Known{Name: p.Name, Learned: learned}
	}
	return nil
}

// verifyPath verifies what stands behind one path. A folder or zip gives one
// value for each bundle in it, and one for all single documents together. The
// input's digest is taken where sum asks for it.
func (a *app) verifyPath(at string, o audit.Options, sum bool) (all []verdict, in audit.Input, err error) {
	list, packed, done, err := a.sources(at)
	if err != nil {
		return nil, in, err
	}
	defer done()
	if sum {
		if in, err = inputOf(at, list, packed); err != nil {
			return nil, in, err
		}
	}
	if packed {
		all, err = verifyPacked(list, at, o)
	} else {
		var v verdict
		v, err = verifyOne(list[0], at, o)
		all, err = []verdict{v}, spec.At(at+" ", err)
	}
	for i := range all {
		all[i].typed = at
	}
	return all, in, err
}

func verifyOne(s source, shown string, o audit.Options) (v verdict, err error) {
	k, value, err := look(s)
	if k == broken || err != nil {
		return v, err
	}
	f, err := s.open()
	if err != nil {
		return v, err
	}
	defer f.Close()
	o.File = shown
	if v.Report, err = audit.Verify(f, o); err == nil && !value.IsZero() {
		v.Signers = signersOf(value)
	}
	return v, err
}

// signersOf has the word of each block, in order (section 3).
func signersOf(v jcs.Value) (out []signerWord) {
	for _, b := range manifest.Blocks(v, nil) {
		w := signerWord{Role: string(b.Role), DID: manifest.Display(b.Signer, 100), Word: string(b.Word)}
		if b.Word == "" {
			w.Word = "ok"
		}
		out = append(out, w)
	}
	return out
}

func verifyPacked(list []source, at string, o audit.Options) (all []verdict, err error) {
	var loose bytes.Buffer
	var last source
	files := make([]fileWord, len(list))
	var pooled []int // documents that are verified together
	for i, s := range list {
		k, value, err := look(s)
		if files[i], err = fileSum(s, err); k == other {
			continue
		}
		switch k {
		case single:
			if loose.Len()+len(value.Bytes()) > jcs.MaxStreamBytes {
				return nil, spec.Refuse(spec.TooLarge, at, "512 MiB of documents")
			}
			loose.Write(value.Bytes())
			loose.WriteByte('\n')
			pooled, last = append(pooled, i), s
			continue
		case stream:
			v, verr := verifyOne(s, at+"/"+s.name, o)
			if err = verr; err == nil {
				all = append(all, v)
			}
		}
		if err != nil { // evidence may have been damaged: never left out in silence
			all = append(all, unreadable(at+"/"+s.name, err))
		}
		files[i].Is = evidence(all[len(all)-1])
	}
	if len(pooled) > 0 {
		s := source{at, func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(loose.Bytes())), nil }}
		shown := at
		if len(pooled) == 1 {
			shown = at + "/" + last.name
		}
		v, err := verifyOne(s, shown, o)
		if err != nil {
			return nil, spec.At(at+" ", err)
		}
		all = append(all, v)
		for _, i := range pooled {
			files[i].Is = evidence(v)
		}
	}
	if len(all) == 0 {
		return nil, spec.Refuse(spec.Malformed, at, "no evidence in it")
	}
	match(all, files)
	return all, nil
}

// evidence is what a file is that was verified.
func evidence(v verdict) string {
	switch {
	case v.Kind == unreadableKind:
		return "evidence that cannot be read"
	case v.Verified:
		return "evidence, verified"
	}
	return "evidence, NOT verified"
}

const unreadableKind = "unreadable"

// unreadable is the report of a file that is named as evidence and cannot be read.
func unreadable(name string, err error) verdict {
	r := audit.Report{File: name, Known: "none", Kind: unreadableKind, Parties: []audit.Party{}, Proven: []audit.Entry{},
		Claimed: []audit.Entry{}, Missing: []audit.Entry{}, Limits: []audit.Limit{}, Timeline: []audit.Moment{}}
	r.Findings = []audit.Finding{{Code: string(spec.ReasonOf(err)), Severity: audit.Wrong, Rule: "D1", Message: manifest.Display(err.Error(), 300)}}
	return verdict{Report: r}
}

// match says what each file is that is no evidence itself: the digest decides, never its name.
func match(all []verdict, files []fileWord) {
	named := map[signing.Digest]string{}
	for _, v := range all {
		for _, x := range v.Facts.Asked {
			named[x.Digest] = "is the file " + manifest.Display(x.Name, 100) + " that went to the worker"
		}
		for _, d := range v.Facts.Deliveries {
			named[d.Output] = fmt.Sprintf("is the delivered result (revision %d)", d.Revision)
			for _, x := range d.Artifacts {
				named[x.Digest] = fmt.Sprintf("is the delivered %s (revision %d)", manifest.Display(x.Name, 100), d.Revision)
			}
		}
	}
	for i := range files {
		f := &files[i]
		if f.Is == "" {
			f.Is = named[f.Digest]
		}
		if f.Is == "" {
			f.Is = "ignored, not evidence"
		}
	}
	all[len(all)-1].Files = files
}
