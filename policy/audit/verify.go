package audit

import (
	"io"
	"slices"
	"sort"
	"strconv"
	"sync"
	"time"

	"sealbridge/manifest"
	"sealbridge/manifest/task"
	"sealbridge/policy/approval"
	"sealbridge/relay"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// Options are what an auditor brings.
type Options struct {
	Trust map[signing.DID]Known // owner keys that the auditor confirmed itself
	At    *time.Time            // the instant to look at deadlines from; nil: the latest time in the documents
	Cores int                   // to check signatures on; 0 is 1
	File  string                // shown in the report
}

// Known is an owner whom the auditor knows.
type Known struct {
	Name    string
	Learned string // how: a letter, a call
}

// MaxFindings of a report: whoever breaks everything needs no longer list.
const MaxFindings = 1000

// Verify reads one document, several, or a bundle, and replays what they say.
// What is there and does not hold is a finding, not an error; an error means
// that the input is no JSON of ours at all, or that r failed.
func Verify(r io.Reader, o Options) (Report, error) {
	a := &audit{o: o, keys: signing.NewKeys()}
	if err := a.read(r); err != nil {
		return Report{}, err
	}
	a.identify()
	a.certify()
	a.judge()
	a.replay()
	a.gates()
	a.heads()
	a.tools()
	a.carried()
	a.conclude()
	return a.rep, nil
}

// document is one of the documents of the file, opened.
type document struct {
	path   string
	value  jcs.Value
	whole  signing.Digest // of the whole canonical bytes
	typ    string         // without its prefix
	words  []manifest.BlockWord
	signed manifest.Signed
	err    error // of shape and rules, where the arithmetic holds

	ask     *approval.Ask
	receipt *relay.Receipt
	hidden  *signing.Block    // of a redacted document (V5)
	by      manifest.Verified // where role and certificate hold
	used    bool              // evidence of this task
}

// good says whether arithmetic, shape and rules hold.
func (d *document) good() bool { return d.err == nil && !d.bad() && !d.signed.IsZero() }

func (d *document) bad() bool {
	for _, w := range d.words {
		if w.Word != "" {
			return true
		}
	}
	return false
}

// audit is the state of one replay.
type audit struct {
	o       Options
	keys    *signing.Keys // one history is signed by few keys
	rep     Report
	docs    []*document // as they stand in the file
	sorted  []*document // by digest: what is said of them does not depend on their order
	bundle  bool
	payload jcs.Value // of the contract, or zero
	m       manifest.TaskManifest
	digest  signing.Digest // of the manifest

	trusts   []manifest.Trust // oldest first; a document holds if any of them admits it
	task     task.Task
	events   []*event // that were applied, in the order of replay
	places   map[place][]*event
	consents map[signing.Digest]consent
	asks     map[signing.Digest]*document
	votes    map[signing.Digest][]manifest.Verified // by the digest of their ask

	handedOver map[signing.Digest]bool        // tokens of granted events
	holders    map[signing.DID]bool           // agents that called under them, issued a link or were called
	called     map[signing.Digest]signing.DID // calls under them, and who was called
	sealer     manifest.Role
	sealed     bool
}

// ahead is how many documents may be read before they are opened: enough to
// keep the cores busy.
const ahead = 256

// read takes the documents from the file and opens them, on all cores, in order.
func (a *audit) read(r io.Reader) error {
	open, wait := a.opener()
	defer wait()
	for v, err := range jcs.Documents(r, jcs.DocumentLimits) {
		if err != nil {
			return err
		}
		if isAround(v) {
			if err := a.around(v); err != nil {
				return err
			}
			continue
		}
		d := &document{path: "/documents/" + strconv.Itoa(len(a.docs)), value: v}
		a.docs = append(a.docs, d)
		open(d)
	}
	wait()
	a.sorted = slices.Clone(a.docs)
	sort.SliceStable(a.sorted, func(i, j int) bool { return a.sorted[i].whole.String() < a.sorted[j].whole.String() })
	if len(a.docs) == 1 && !a.bundle {
		a.docs[0].path = ""
	}
	return nil
}

// isAround says whether v is an object around a list of documents: it has no
// signature, and its list is empty because the documents came before it.
func isAround(v jcs.Value) bool {
	list, ok := v.Member("documents")
	_, signed := v.Member("signature")
	return ok && !signed && list.Kind() == '['
}

// around holds the object around the documents: exactly its three members, once.
func (a *audit) around(v jcs.Value) error {
	var head struct {
		Type            string      `json:"type" rule:"const=sealbridge/bundle"`
		ProtocolVersion string      `json:"protocolVersion" rule:"const=0.2.0"`
		Documents       []jcs.Value `json:"documents" rule:"items=0..0"`
	}
	if err := jcs.Decode(v, &head); err != nil {
		return err
	}
	if a.bundle {
		return spec.Refuse(spec.Malformed, "/type", "V4: one bundle a file")
	}
	a.bundle = true
	return nil
}

// opener opens documents while others are still read. wait returns when all are
// open, and may be called again.
func (a *audit) opener() (open func(*document), wait func()) {
	if a.o.Cores <= 1 {
		return func(d *document) { d.open(a.keys) }, func() {}
	}
	next := make(chan *document, ahead)
	var wg sync.WaitGroup
	for range a.o.Cores {
		wg.Go(func() {
			for d := range next {
				d.open(a.keys)
			}
		})
	}
	return func(d *document) { next <- d }, sync.OnceFunc(func() { close(next); wg.Wait() })
}

// open is all that can be said of a document alone. It touches nothing else.
func (d *document) open(k *signing.Keys) {
	d.whole, d.typ = signing.DigestOf(d.value.Bytes()), manifest.TypeName(d.value)
	if d.typ == "ask" {
		ask, err := approval.Open(d.value)
		d.ask, d.err = &ask, err
		return
	}
	if hidden, ok := d.value.Member("redacted"); ok && hidden.String() == "true" {
		d.openRedacted()
		return
	}
	switch d.typ {
	case "custody-receipt", "relay-hello", "checkpoint":
		if d.words = manifest.Blocks(d.value, k); len(d.words) > 0 && !d.bad() {
			d.err = d.openRelay()
		}
		return
	}
	signed, words, err := manifest.OpenWords(d.value, k)
	if d.words = words; len(words) > 0 && !d.bad() {
		d.signed, d.err = signed, err
	}
}

// openRedacted holds the signature of a document whose text was left out: it
// proves who signed which digest, as what, and nothing that it said (V5).
func (d *document) openRedacted() {
	var doc struct {
		Type      string        `json:"type" rule:"len=1..100"`
		Redacted  bool          `json:"redacted"`
		Signature signing.Block `json:"signature"`
	}
	if d.err = jcs.Decode(d.value, &doc); d.err != nil {
		return
	}
	c, ok := signing.ContextFor(doc.Type)
	if !ok {
		d.err = spec.Refuse(spec.UnknownType, "/type", "S4")
		return
	}
	if d.err = (*signing.Keys)(nil).VerifyDigest(doc.Signature.PayloadDigest, c, doc.Signature); d.err != nil {
		d.err = spec.At("/signature", d.err)
		return
	}
	d.hidden = &doc.Signature
}

func (d *document) openRelay() error {
	by, err := signing.ParseDID(d.words[0].Signer)
	if err != nil {
		return err
	}
	switch d.typ {
	case "custody-receipt":
		r, err := relay.ReadReceipt(d.value, by)
		d.receipt = &r
		return err
	case "checkpoint":
		_, err = relay.OpenCheckpoint(d.value.Bytes(), by)
	case "relay-hello":
		_, err = relay.OpenHello(d.value.Bytes(), by, d.words[0].At.Time())
	}
	return err
}

// find notes a finding about a document; d may be nil.
func (a *audit) find(severity string, code spec.Reason, d *document, path, rule, message string) {
	f := Finding{Code: string(code), Path: path, Severity: severity, Rule: rule, Message: message}
	if d != nil {
		f.Path, f.Document = d.path+path, d.whole.String()
	}
	a.rep.Findings = append(a.rep.Findings, f)
}

// wrong notes an error in its own words.
func (a *audit) wrong(d *document, prefix string, err error) {
	e := specOf(err)
	a.find(Wrong, e.Reason, d, prefix+e.Path, ruleIn(e.Limit), e.Limit)
}

func (a *audit) missing(what, by, rule, path, ask string) {
	same := func(e Entry) bool { return e.What == what && e.Rule == rule }
	if slices.ContainsFunc(a.rep.Missing, same) {
		return
	}
	a.rep.Missing = append(a.rep.Missing, Entry{what, by, rule, path, ask})
}

// order puts the findings by place: the first break comes first.
func (a *audit) order() {
	rank := map[string]int{Wrong: 0, Absent: 1, Note: 2}
	fs := a.rep.Findings
	place := map[string]int{}
	for i, d := range a.docs {
		place[d.whole.String()] = i
	}
	at := func(f Finding) int {
		if i, ok := place[f.Document]; ok {
			return i
		}
		return len(a.docs)
	}
	sort.SliceStable(fs, func(i, j int) bool {
		if r, s := rank[fs[i].Severity], rank[fs[j].Severity]; r != s {
			return r < s
		}
		return at(fs[i]) < at(fs[j])
	})
	if len(fs) > MaxFindings {
		a.rep.Findings = fs[:MaxFindings]
	}
}
