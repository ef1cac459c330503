package manifest_test

import (
	"strings"
	"testing"

	"sealbridge/manifest"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

func TestWhatIsSignedOpensToTheSameBytes(t *testing.T) {
	for name, v := range everyWire(t) {
		s, err := manifest.Open(v.Bytes(), nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		again, err := jcs.Encode(s.Document())
		if want := v.Without("signature"); err != nil || again.String() != want.String() {
			t.Errorf("%s: re-encodes to %s, %v", name, again, err)
		}
	}
}

// mutations yields every document one step from v: each member, at every
// depth, removed, retyped, changed, and one unknown member added to each object.
func mutations(v jcs.Value, yield func(what string, m jcs.Value)) {
	extra, _ := jcs.Text("x")
	switch v.Kind() {
	case '{':
		yield("+x_extra", v.With("x_extra", extra))
		for name, m := range v.Members() {
			yield("-"+name, v.Without(name))
			mutations(m, func(what string, m jcs.Value) { yield("/"+name+what, v.With(name, m)) })
		}
	case '[':
		var items []jcs.Value
		for m := range v.Items() {
			items = append(items, m)
		}
		if len(items) == 0 {
			break
		}
		yield("[]", jcs.List())
		yield("[+1]", jcs.List(append(append([]jcs.Value{}, items...), items...)...))
		for i := range items {
			mutations(items[i], func(what string, m jcs.Value) {
				out := append([]jcs.Value{}, items...)
				out[i] = m
				yield("[]"+what, jcs.List(out...))
			})
		}
	}
	for _, other := range []string{`null`, `true`, `false`, `0`, `1`, `-1`, `1.5`, `9007199254740991`, `""`, `"x"`, `"` + strings.Repeat("y", 40000) + `"`, `[]`, `{}`} {
		if m, err := jcs.Parse([]byte(other)); err == nil && m.String() != v.String() {
			yield("="+other[:min(len(other), 8)], m)
		}
	}
}

func TestNoForgeryIsAccepted(t *testing.T) {
	all := everyWire(t)
	tried := 0
	refuse := func(name, what string, m jcs.Value) {
		t.Helper()
		tried++
		if s, err := manifest.Open(m.Bytes(), nil); err == nil || !s.IsZero() {
			t.Errorf("%s %s: accepted", name, what)
		}
	}
	for name, v := range all {
		mutations(v, func(what string, m jcs.Value) {
			// One side's block alone is a smaller statement that its signer made, not a forgery.
			if what != "/signatures-requesterSignature" && what != "/signatures-workerSignature" {
				refuse(name, what, m)
			}
		})
		for _, typ := range append(signing.Types(), "sealbridge/task-manifest", "sealbridge/delivery", "Sealbridge/event") {
			text, _ := jcs.Text(typ)
			if have, _ := v.Member("type"); have.String() != text.String() {
				refuse(name, "replayed as "+typ, v.With("type", text))
			}
		}
		for other, w := range all {
			if block, ok := w.Member("signature"); ok && other != name {
				if mine, typed := v.Member("signature"); typed && mine.String() != block.String() {
					refuse(name, "with the block of "+other, v.With("signature", block))
				}
			}
		}
	}
	pair, _ := all["task-manifest"].Member("signatures")
	a, _ := pair.Member("requesterSignature")
	b, _ := pair.Member("workerSignature")
	refuse("task-manifest", "blocks swapped", all["task-manifest"].With("signatures", pair.With("requesterSignature", b).With("workerSignature", a)))
	refuse("task-manifest", "one block twice", all["task-manifest"].With("signatures", pair.With("workerSignature", a)))
	t.Logf("%d forgeries tried", tried)
	if tried < 10000 {
		t.Errorf("%d forgeries: the table has lost rows", tried)
	}
}

func TestEveryKindOfBodyIsTried(t *testing.T) {
	have := map[manifest.Kind]bool{}
	for _, f := range bodies() {
		have[f.Kind()] = true
	}
	for _, k := range manifest.Kinds() {
		if !have[k] {
			t.Errorf("no fixture of %s", k)
		}
	}
	if _, err := manifest.Open([]byte(`{}`), nil); spec.ReasonOf(err) != spec.Malformed {
		t.Error(err)
	}
}

// A right signature under the wrong kind: signed as one document, offered as another.
func TestNoKindOfDocumentStandsForAnother(t *testing.T) { // B004, S4
	wires := everyWire(t)
	tried := 0
	for name, wire := range wires {
		own, _ := wire.At("/type")
		if own.IsZero() {
			continue // the manifest: its blocks stand apart, and it has no type
		}
		text, _ := own.Text()
		for _, typ := range signing.Types() {
			if typ == text {
				continue
			}
			as := with(wire, "/type", `"`+typ+`"`)
			if _, err := manifest.Open(as.Bytes(), nil); err == nil {
				t.Errorf("%s passes as %s", name, typ)
			}
			// all of it signed anew by the same key, but as the other kind
			context := signing.Context(signing.ContextPrefix + strings.TrimPrefix(typ, "sealbridge/"))
			block, err := signing.Sign(wire.Without("signature"), context, annOwner, noon)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := manifest.Open(wire.Without("signature").With("signature", must(jcs.Encode(block))).Bytes(), nil); spec.ReasonOf(err) != spec.BadSignature {
				t.Errorf("%s signed as %s: %v, want bad-signature", name, typ, err)
			}
			tried++
		}
	}
	if tried < 10*len(signing.Types())/2 {
		t.Errorf("only %d pairs were tried", tried)
	}
	receipt := wires["usage-receipt"]
	if _, err := manifest.ReadManifest(receipt); err == nil || receipt.IsZero() {
		t.Error("a usage receipt passes as a manifest")
	}
	for _, garbage := range []string{"", "not json", `{"type":"sealbridge/usage-receipt"`, "null", `"sealbridge/event"`} {
		if _, err := manifest.Open([]byte(garbage), nil); err == nil {
			t.Errorf("%q opens", garbage)
		}
	}
}
