package manifest_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"sealbridge/manifest"
	"sealbridge/spec"
)

func TestDisplaySpellsOutWhatCannotBeSeen(t *testing.T) { // M8
	for in, want := range map[string]string{
		"plain – äöü 漢字 👍": "plain – äöü 漢字 👍",
		"a\u202eb":         "a⟨U+202E⟩b",
		"a\u2066b\u2069":   "a⟨U+2066⟩b⟨U+2069⟩",
		"a\u200bb":         "a⟨U+200B⟩b",
		"a\ufe0fb":         "a⟨U+FE0F⟩b",
		"a\u3164b":         "a⟨U+3164⟩b",
		"a\u2800b":         "a⟨U+2800⟩b",
		"a\u00a0b":         "a⟨U+00A0⟩b",
		"a\ue000b":         "a⟨U+E000⟩b",
		"a\U000e0041b":     "a⟨U+E0041⟩b",
		"a\nb\x1b[31m":     "a⟨U+000A⟩b⟨U+001B⟩[31m",
		"⟨U+202E⟩":         "⟨U+27E8⟩U+202E⟨U+27E9⟩",
		"abcdefghijk":      "abcdefghijk",
	} {
		if got := manifest.Display(in, 40); got != want {
			t.Errorf("Display(%q) = %q, want %q", in, got, want)
		}
	}
	if got := manifest.Display("abcdef", 3); got != "abc…" {
		t.Errorf("cut to %q", got)
	}
}

func TestSkeletonsOfLookAlikesAreEqual(t *testing.T) { // M8
	for _, pair := range [][2]string{{"paypal", "раураl"}, {"Ben", "Веn"}, {"Ada", "Αda"}, {"Illo", "lllo"}, {"bank1", "bankl"}, {"modern", "modem"}, {"Ann", "A nn"}} {
		if manifest.Skeleton(pair[0]) != manifest.Skeleton(pair[1]) {
			t.Errorf("%q and %q look alike: %q, %q", pair[0], pair[1], manifest.Skeleton(pair[0]), manifest.Skeleton(pair[1]))
		}
	}
	for _, pair := range [][2]string{{"Ann", "Anna"}, {"Ben", "Bea"}, {"Kite", "Site"}} {
		if manifest.Skeleton(pair[0]) == manifest.Skeleton(pair[1]) {
			t.Errorf("%q and %q have one skeleton", pair[0], pair[1])
		}
	}
}

func TestSixWordsAreOneForBothSides(t *testing.T) { // K2
	id := must(manifest.ParseInviteID("inv_01JDZ8M4"))
	words := manifest.SixWords(annOwner.DID(), benOwner.DID(), id)
	if words != manifest.SixWords(benOwner.DID(), annOwner.DID(), id) || len(strings.Fields(words)) != 6 {
		t.Errorf("%q", words)
	}
	if words == manifest.SixWords(annOwner.DID(), eveOwner.DID(), id) || words == manifest.SixWords(annOwner.DID(), benOwner.DID(), must(manifest.ParseInviteID("inv_00000000"))) {
		t.Error("other people or another invite, the same words")
	}
	if f := manifest.Fingerprint(annOwner.DID()); len(strings.Fields(f)) != 5 || f == manifest.Fingerprint(benOwner.DID()) {
		t.Errorf("%q", f)
	}
}

func TestWordListHas2048DifferentWords(t *testing.T) {
	raw, err := os.ReadFile("words.txt")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, w := range strings.Fields(string(raw)) {
		if seen[w] || len(w) < 3 || len(w) > 9 || strings.Trim(w, "abcdefghijklmnopqrstuvwxyz") != "" {
			t.Errorf("%q is twice there, or not a plain word of 3 to 9 letters", w)
		}
		seen[w] = true
	}
	if len(seen) != 2048 {
		t.Errorf("%d words", len(seen))
	}
}

func TestInviteTokenIsOneShortLine(t *testing.T) { // K1
	inv := *fixtures()[3].doc.(*manifest.Invite)
	token, err := manifest.InviteToken(signedWire(&inv, annOwner))
	if err != nil || len(token) > 900 || !strings.HasPrefix(token, "sealbridge-invite:") {
		t.Fatalf("%d characters, %v", len(token), err)
	}
	wrapped := "  " + token[:300] + "\n\t" + token[300:] + " \r\n"
	got, s, err := manifest.ParseInviteToken(wrapped)
	if err != nil || *got != inv || s.By() != annOwner.DID() {
		t.Fatal(got, err)
	}
	for what, bad := range map[string]string{
		"cut":            token[:len(token)-7],
		"another scheme": strings.Replace(token, "invite", "envite", 1),
		"padded":         token + "=",
		"changed":        token[:100] + "x" + token[101:],
		"empty":          "",
	} {
		if _, _, err := manifest.ParseInviteToken(bad); err == nil {
			t.Errorf("%s: accepted", what)
		}
	}
	inv.ExpiresAt = later(31 * day)
	long, err := manifest.InviteToken(signedWire(&inv, annOwner))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := manifest.ParseInviteToken(long); spec.ReasonOf(err) != spec.Malformed {
		t.Error("an invite of 31 days:", err)
	}
	inv.Relay.Endpoint = "wss://" + strings.Repeat("r", 290)
	if _, err := manifest.InviteToken(must(manifest.Sign(&inv, annOwner, time.Unix(1900000000, 0))).Wire()); spec.ReasonOf(err) != spec.TooLarge {
		t.Error("a token of more than 900 characters:", err)
	}
}
