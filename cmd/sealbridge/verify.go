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
	Files   []fileWord   `json:"files,omitempty"`   // of a folder or zip, that are no evidence themselves
}

// signerWord is what arithmetic says of one signature block: ok, or the word.
type signerWord struct {
	Role string `json:"role,omitempty"`
	DID  string `json:"did"`
	Word string `json:"word"`
}

// fileWord says whether the evidence names a file that lies beside it.
type fileWord struct {
	Name   string         `json:"name"`
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
		Example: "  sealbridge verify acme.zip --trust parties.yaml --require binding,known\n" +
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
	for _, p := range paths {
		var vs []verdict
		if vs, err = a.verifyPath(p, o); err != nil {
			break
		}
		all = append(all, vs...)
	}
	done()
	if err != nil {
		return err
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

// trust reads NAME=DID or a parties.yaml.
func trust(into map[signing.DID]audit.Known, arg string) error {
	if name, did, ok := strings.Cut(arg, "=did:key:"); ok {
		d, err := signing.ParseDID("did:key:" + did)
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
// value for each bundle in it, and one for all single documents together.
func (a *app) verifyPath(at string, o audit.Options) ([]verdict, error) {
	list, packed, done, err := a.sources(at)
	if err != nil {
		return nil, err
	}
	defer done()
	if !packed {
		v, err := verifyOne(list[0], at, o)
		if err != nil {
			return nil, spec.At(at+" ", err)
		}
		return []verdict{v}, nil
	}
	return verifyPacked(list, at, o)
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
	var files []fileWord
	pooled := 0
	for _, s := range list {
		k, value, err := look(s)
		switch k {
		case single:
			if loose.Len()+len(value.Bytes()) > jcs.MaxStreamBytes {
				return nil, spec.Refuse(spec.TooLarge, at, "512 MiB of documents")
			}
			loose.Write(value.Bytes())
			loose.WriteByte('\n')
			pooled, last = pooled+1, s
		case stream:
			v, err := verifyOne(s, at+"/"+s.name, o)
			if err != nil {
				v = unreadable(at+"/"+s.name, err)
			}
			all = append(all, v)
		case broken: // evidence may have been damaged: never left out in silence
			all = append(all, unreadable(at+"/"+s.name, err))
		case other:
			d, n, err := fileSum(s)
			if err != nil {
				return nil, &spec.Error{Reason: spec.Malformed, Path: at + "/" + s.name, Err: err}
			}
			files = append(files, fileWord{Name: s.name, Digest: d, Bytes: n})
		}
	}
	if pooled > 0 {
		s := source{at, func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(loose.Bytes())), nil }}
		shown := at
		if pooled == 1 {
			shown = at + "/" + last.name
		}
		v, err := verifyOne(s, shown, o)
		if err != nil {
			return nil, spec.At(at+" ", err)
		}
		all = append(all, v)
	}
	if len(all) == 0 {
		return nil, spec.Refuse(spec.Malformed, at, "no evidence in it")
	}
	match(all, files)
	return all, nil
}

const unreadableKind = "unreadable"

// unreadable is the report of a file that is named as evidence and cannot be read.
func unreadable(name string, err error) verdict {
	r := audit.Report{File: name, Known: "none", Kind: unreadableKind, Parties: []audit.Party{}, Proven: []audit.Entry{},
		Claimed: []audit.Entry{}, Missing: []audit.Entry{}, Limits: []audit.Limit{}, Timeline: []audit.Moment{}}
	r.Findings = []audit.Finding{{Code: string(spec.ReasonOf(err)), Severity: audit.Wrong, Rule: "D1", Message: manifest.Display(err.Error(), 300)}}
	return verdict{Report: r}
}

// match says what each file is that lies beside the evidence: the digest decides, never its name.
func match(all []verdict, files []fileWord) {
	if len(files) == 0 {
		return
	}
	named := map[signing.Digest]string{}
	for _, v := range all {
		for _, x := range v.Facts.Asked {
			named[x.Digest] = "the file " + manifest.Display(x.Name, 100) + " that went to the worker"
		}
		for _, d := range v.Facts.Deliveries {
			for _, x := range d.Artifacts {
				named[x.Digest] = fmt.Sprintf("the delivered %s (revision %d)", manifest.Display(x.Name, 100), d.Revision)
			}
		}
	}
	for i, f := range files {
		if files[i].Is = named[f.Digest]; files[i].Is == "" {
			files[i].Is = "ignored, not evidence"
		}
	}
	all[len(all)-1].Files = files
}
