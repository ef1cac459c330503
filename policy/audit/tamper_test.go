package audit_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"sealbridge/manifest"
	"sealbridge/policy/audit"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// holds says whether a text is accepted as what it was.
func holds(text string) bool {
	r, err := audit.Verify(strings.NewReader(text), audit.Options{})
	return err == nil && r.Verified
}

// Every byte of every signed document is under a signature or a digest.
func TestNoByteOfASignedDocumentCanChange(t *testing.T) {
	s := finished(t)
	seen := map[string]bool{}
	for _, d := range s.documents(ann) {
		typ := manifest.TypeName(d)
		if typ == "ask" || seen[typ] && typ == "acknowledgement" {
			continue
		}
		seen[typ] = true
		raw := d.Bytes()
		if !holds(string(raw)) {
			t.Fatalf("a good %s does not hold", typ)
		}
		for i := range raw {
			if testing.Short() && i%7 != 0 {
				continue
			}
			raw[i] ^= 1
			if holds(string(raw)) {
				t.Fatalf("%s: byte %d changed from %q, and it still holds", typ, i, d.String()[i])
			}
			raw[i] ^= 1
		}
	}
}

func TestNoByteOfABundleCanChange(t *testing.T) {
	text := []byte(finished(t).export(ann))
	head, tried := bytes.IndexByte(text, '\n'), 0
	for i := 0; i < len(text); i++ {
		if i > head {
			i += rand.IntN(180) // every byte of what stands around the documents, some of each
		}
		if i >= len(text) {
			break
		}
		was := text[i]
		text[i] ^= 1 << rand.IntN(3)
		if holds(string(text)) && !bytes.ContainsRune([]byte(" \n\t\r"), rune(was)) {
			t.Errorf("byte %d changed from %q, and the bundle still holds", i, was)
		}
		text[i] = was
		tried++
	}
	if tried < 200 {
		t.Fatalf("only %d bytes were tried", tried)
	}
}

// B023: a cut is seen, whether the old seal stays or the exporter seals anew.
func TestACutHistoryIsNeverVerified(t *testing.T) {
	s := finished(t)
	n := len(s.events)
	if n < 12 {
		t.Fatalf("%d events, want 12", n)
	}
	cuts := map[string]func(i int) bool{
		"a: the last 3":        func(i int) bool { return i >= n-3 },
		"b: the first 3":       func(i int) bool { return i < 3 },
		"c: one in the middle": func(i int) bool { return i == n/2 },
		"d: everything":        func(int) bool { return true },
		"the first":            func(i int) bool { return i == 0 },
		"Ann's chain":          func(i int) bool { return s.authors[i].role == manifest.Requester },
		"Ben's chain":          func(i int) bool { return s.authors[i].role == manifest.Worker },
		"both last":            func(i int) bool { return i >= n-2 },
	}
	for i := range n {
		cuts[fmt.Sprintf("event %d", i)] = func(j int) bool { return i == j }
	}
	for name, gone := range cuts {
		var docs []jcs.Value
		for _, d := range s.documents(ann) {
			if i := slices.Index(s.events, d); i < 0 || !gone(i) {
				docs = append(docs, d)
			}
		}
		for kind, text := range map[string]string{
			"old seal": strings.Replace(s.export(ann), "", "", 1), "new seal": s.bundle(ann, docs, s.heads(ann)),
			"new seal with honest heads": s.bundle(ann, docs, headsIn(docs, ann, s)),
		} {
			if kind == "old seal" {
				text = without(text, s.events, gone)
			}
			r := verify(t, text)
			if r.Verified || r.Binding {
				t.Errorf("%s, %s: verified %v, binding %v", name, kind, r.Verified, r.Binding)
			}
			if len(r.Missing) == 0 {
				t.Errorf("%s, %s: does not say what is missing: %+v", name, kind, r.Findings)
			}
		}
	}
}

// without takes lines out of a bundle.
func without(text string, events []jcs.Value, gone func(int) bool) string {
	var out []string
	for _, line := range strings.Split(text, "\n") {
		i := slices.IndexFunc(events, func(v jcs.Value) bool { return v.String() == strings.TrimSuffix(line, ",") })
		if i < 0 || !gone(i) {
			out = append(out, line)
		}
	}
	return strings.Join(out, "\n")
}

// headsIn are the ends of what is left.
func headsIn(docs []jcs.Value, p person, s *story) manifest.Heads {
	h := manifest.Heads{TaskID: s.m.TaskID, ManifestDigest: s.task.ManifestDigest()}
	for _, d := range docs {
		o, err := manifest.OpenValue(d, nil)
		if err != nil {
			continue
		}
		if e, ok := o.Document().(*manifest.Event); ok {
			head := &manifest.Head{Seq: e.Seq, Digest: o.Digest()}
			if e.Author == p.agent.DID() {
				h.Mine = head
			} else {
				h.Yours = head
			}
		}
	}
	return h
}

// B023 e: another tail, validly chained and signed by its author, cannot take
// the place of the one that the other side acknowledged.
func TestAReplacedTailIsAConflict(t *testing.T) {
	s := newStory(t).propose().ack(ben).accept().ack(ann)
	s.say(ben, manifest.Started{}, nil)
	fork := *s
	fork.events, fork.acks = slices.Clone(s.events), slices.Clone(s.acks)
	for _, x := range []*story{s, &fork} {
		text := map[*story]string{s: "half", &fork: "nearly all"}[x]
		for range 3 {
			x.say(ben, manifest.Progressed{Checkpoint: text, Usage: used(10), Waiting: "nobody"}, nil)
		}
	}
	s.ack(ann)
	fork.acks = s.acks // Ann signed for the other tail
	r := verify(t, fork.export(ben))
	if r.Verified || !has(r, spec.Conflict) {
		t.Errorf("verified %v, findings %+v", r.Verified, r.Findings)
	}
	both := append(slices.Clone(s.documents(ben)), fork.events[3:]...)
	if r := verify(t, s.bundle(ben, both, s.heads(ben))); r.Verified || !has(r, spec.Fork) {
		t.Errorf("both tails in one bundle: verified %v, findings %+v", r.Verified, r.Findings)
	}
}

func has(r audit.Report, word spec.Reason) bool {
	return slices.ContainsFunc(r.Findings, func(f audit.Finding) bool { return f.Code == string(word) && f.Severity == audit.Wrong })
}

func TestWithoutItsAcknowledgementAnEndingBindsNobody(t *testing.T) {
	s := finished(t)
	s.acks = s.acks[:len(s.acks)-1]
	r := verify(t, s.export(ann))
	if !r.Verified || r.Binding {
		t.Errorf("verified %v, binding %v: %+v", r.Verified, r.Binding, r.Findings)
	}
	if !slices.ContainsFunc(r.Missing, func(e audit.Entry) bool { return e.Rule == "R4a" && strings.Contains(e.Ask, "Ben") }) {
		t.Errorf("missing %+v", r.Missing)
	}
}

func TestABundleHasExactlyOneSeal(t *testing.T) {
	s := finished(t)
	whole := s.export(ann)
	lines := strings.Split(strings.TrimSpace(whole), "\n")
	seal := lines[len(lines)-2]
	for name, text := range map[string]string{
		"none":                 strings.Replace(whole, ",\n"+seal, "", 1),
		"two":                  strings.Replace(whole, seal, seal+",\n"+seal, 1),
		"over other documents": strings.Replace(whole, lines[2]+"\n", "", 1),
		"by a third":           strings.Replace(whole, seal, sealBy(s, eve), 1),
		"by the owner":         strings.Replace(whole, seal, sealBy(s, person{"Ann", ann.owner, ann.owner, manifest.Requester}), 1),
		"in another order":     strings.Replace(whole, lines[2]+"\n"+lines[3], lines[3]+"\n"+lines[2], 1),
	} {
		if text == whole {
			t.Fatalf("%s: nothing changed", name)
		}
		if r := verify(t, text); r.Verified || r.Binding || len(r.Missing)+len(r.Findings) == 0 {
			t.Errorf("%s: verified %v, binding %v", name, r.Verified, r.Binding)
		}
	}
}

func sealBy(s *story, p person) string {
	x := *s
	text := x.bundle(p, s.documents(ann), s.heads(ann))
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-2]
}

// The verdict does not depend on the order of the documents.
func TestOrderDoesNotMatter(t *testing.T) {
	s := finished(t)
	for _, docs := range [][]jcs.Value{s.documents(ann), s.documents(ann)[:14], s.documents(ben)[3:]} {
		want := verdict(verify(t, ndjson(docs)))
		for range 10 {
			rand.Shuffle(len(docs), func(i, j int) { docs[i], docs[j] = docs[j], docs[i] })
			if got := verdict(verify(t, ndjson(docs))); got != want {
				t.Errorf("shuffled:\n%s\nwant\n%s", got, want)
			}
		}
	}
}

func ndjson(docs []jcs.Value) string {
	var b strings.Builder
	for _, d := range docs {
		b.WriteString(d.String() + "\n")
	}
	return b.String()
}

// verdict is the report without places in the file.
func verdict(r audit.Report) string {
	var findings []string
	for i := range r.Findings {
		f := r.Findings[i]
		findings = append(findings, strings.Join([]string{f.Code, f.Severity, f.Rule, f.Message, f.Document}, " "))
	}
	slices.Sort(findings)
	r.Findings = nil
	for _, es := range [][]audit.Entry{r.Proven, r.Claimed, r.Missing} {
		for i := range es {
			es[i].Path = ""
		}
	}
	b, _ := json.MarshalIndent(r, "", " ")
	return string(b) + strings.Join(findings, "\n")
}

func TestTheReportIsTheSameForAnyNumberOfCores(t *testing.T) {
	text := finished(t).export(ben)
	var want []byte
	for _, cores := range []int{0, 1, 2, 7, 64} {
		r, err := audit.Verify(strings.NewReader(text), audit.Options{Cores: cores})
		if err != nil {
			t.Fatal(err)
		}
		got, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if want == nil {
			want = got
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%d cores give another report", cores)
		}
		if bytes.Contains(got, []byte(":null,\"parties\"")) || !bytes.Contains(got, []byte(`"findings":[]`)) {
			t.Errorf("lists: %s", got[:300])
		}
	}
}

// Whoever only knows some of the keys is told so.
func TestKnownIsWhatTheAuditorBrings(t *testing.T) {
	text := finished(t).export(ann)
	both := map[signing.DID]audit.Known{ann.owner.DID(): {"Acme", "letter"}, ben.owner.DID(): {"Borealis", "call"}}
	for _, c := range []struct {
		trust map[signing.DID]audit.Known
		want  string
	}{{nil, "none"}, {map[signing.DID]audit.Known{eve.owner.DID(): {}}, "none"}, {map[signing.DID]audit.Known{ann.owner.DID(): both[ann.owner.DID()]}, "some"}, {both, "all"}} {
		r, err := audit.Verify(strings.NewReader(text), audit.Options{Trust: c.trust})
		if err != nil || r.Known != c.want || !r.Verified {
			t.Errorf("known %s, want %s (%v)", r.Known, c.want, err)
		}
		if c.want == "all" && (r.Parties[1].Name != "Borealis" || r.Parties[0].Learned != "letter") {
			t.Errorf("parties %+v", r.Parties)
		}
	}
}

func FuzzVerify(f *testing.F) {
	s := finished(f)
	for _, d := range s.documents(ben) {
		f.Add(d.Bytes())
	}
	f.Add([]byte(newStory(f).propose().export(ann)))
	f.Add([]byte(`{"type":"sealbridge/bundle","protocolVersion":"0.2.0","documents":[{}]}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		r, err := audit.Verify(bytes.NewReader(in), audit.Options{})
		if err != nil {
			if spec.ReasonOf(err) == spec.Internal {
				t.Errorf("an error without a word: %v", err)
			}
			return
		}
		if r.Binding && !r.Verified || r.Verified && r.Signatures == 0 {
			t.Errorf("binding %v, verified %v, %d signatures", r.Binding, r.Verified, r.Signatures)
		}
		var out bytes.Buffer
		if audit.Text(r, &out) != nil || audit.ReceiptText(r, &out) != nil {
			t.Error("no text")
		}
	})
}
