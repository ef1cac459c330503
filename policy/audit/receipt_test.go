package audit_test

import (
	"html"
	"regexp"
	"strings"
	"testing"

	"sealbridge/policy/audit"
)

func receipt(t *testing.T, r audit.Report) (text, page string) {
	t.Helper()
	var a, b strings.Builder
	if err := audit.ReceiptText(r, &a); err != nil {
		t.Fatal(err)
	}
	if err := audit.ReceiptHTML(r, &b); err != nil {
		t.Fatal(err)
	}
	return a.String(), b.String()
}

// Whoever exported the evidence, and when, the receipt of the same events is the same.
func TestAReceiptIsOfTheTaskAndNotOfItsExport(t *testing.T) {
	f := finished(t)
	text, page := receipt(t, verify(t, f.export(ann)))
	other, otherPage := receipt(t, verify(t, f.export(ben)))
	if text != other || page != otherPage {
		t.Errorf("two receipts of one task:\n%s\n%s", text, other)
	}
	for _, want := range []string{"RECEIPT", "completed", " asked ", "Asked ", "left ", "Got ", "accepted and released to", "input tokens", "handed on      nobody; this is complete",
		"No money moved through Sealbridge.", "Said yes", "(passphrase)", "Checked", "Shows not", "sealbridge verify FILE"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	t.Log("\n" + text)
}

var markup = regexp.MustCompile(`<[^>]*>`)

// The page says the same words, runs nothing and loads nothing.
func TestAReceiptAsAPage(t *testing.T) {
	text, page := receipt(t, verify(t, finished(t).export(ann)))
	plain := html.UnescapeString(page)
	for _, word := range strings.Fields(text) {
		if !strings.Contains(plain, word) {
			t.Errorf("%q is not in the page", word)
		}
	}
	for _, tag := range markup.FindAllString(page, -1) {
		if low := strings.ToLower(tag); strings.Contains(low, "script") || strings.Contains(low, "src=") || strings.Contains(low, "href") || strings.Contains(low, " on") {
			t.Errorf("%s", tag)
		}
	}
	if !strings.Contains(page, "default-src 'none'") || !strings.Contains(page, "@media print") {
		t.Error(page)
	}
}

func TestAReceiptOfWhatDoesNotHoldSaysSo(t *testing.T) {
	bad := strings.Replace(finished(t).export(ann), `"north":1.5`, `"north":9.5`, 1)
	if text, _ := receipt(t, verify(t, bad)); !strings.Contains(text, "NOT VERIFIED") {
		t.Errorf("\n%s", text)
	}
	if text, _ := receipt(t, audit.Report{}); !strings.Contains(text, "no task") {
		t.Errorf("\n%s", text)
	}
}
