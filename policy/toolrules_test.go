package policy

import (
	"encoding/json"
	"testing"

	"sealbridge/manifest"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

func toolPolicy() Policy {
	p := Default()
	p.Tools = []Tool{
		{Match: "docs.delete", Then: ThenRefuse},
		{Match: "docs.*", Resource: Words{"mcp://docs/{path}"}, Effect: Words{"none"}, Then: ThenAllow},
		{Match: "fs.move", Resource: Words{"mcp://fs{/source}", "mcp://fs{/target}"}, Then: ThenAsk},
		{Match: "mail.send", Effect: Words{"external_communication"}, Then: ThenAsk},
		{Match: "time.now", Resource: Words{"mcp://time/now"}, Defaults: map[string]any{"zone": "UTC", "digits": 3}, Effect: Words{"none"}, Then: ThenAllow},
	}
	return p
}

func TestAGrantRefersToTheOwnersRules(t *testing.T) { // C1a, C2
	p := toolPolicy()
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		resource string
		tools    []string
		want     spec.Reason
	}{
		{"mcp://docs/public/*", []string{"docs.read", "docs.list"}, ""},
		{"mcp://docs/*", []string{"docs.read"}, ""},
		{"mcp://docs/a.txt", []string{"docs.read"}, ""},
		{"mcp://fs/home/*", []string{"fs.move"}, ""},
		{"mcp://time/now", []string{"time.now"}, ""},
		{"mcp://time/*", []string{"time.now"}, ""},
		{"tool://any/mail.send", []string{"mail.send"}, ""},
		{"mcp://time/later", []string{"time.now"}, spec.CapabilityDenied},
		{"mcp://other/*", []string{"docs.read"}, spec.CapabilityDenied},
		{"mcp://docs2/a", []string{"docs.read"}, spec.CapabilityDenied},
		{"mcp://docs/../x", []string{"docs.read"}, spec.CapabilityDenied},
		{"tool://any/docs.read", []string{"docs.read"}, spec.CapabilityDenied},
		{"mcp://mail/*", []string{"mail.send"}, spec.CapabilityDenied},
		{"tool://any/mail.send", []string{"mail.send", "docs.read"}, spec.CapabilityDenied},
		{"tool://any/*", []string{"mail.send"}, spec.CapabilityDenied},
		{"mcp://docs/*", []string{"docs.read", "docs.delete"}, spec.PolicyDenied},
		{"mcp://db/*", []string{"db.query"}, spec.PolicyDenied},
	} {
		err := p.Grants([]manifest.Grant{{Resource: c.resource, AllowedTools: c.tools}})
		if spec.ReasonOf(err) != c.want {
			t.Errorf("%s on %s: %v, want %q", c.tools, c.resource, err, c.want)
		}
	}
}

func TestARuleIsARowOfTheTable(t *testing.T) { // C1a
	p := toolPolicy()
	args, err := jcs.Canonicalize([]byte(`{"zone":"CET"}`))
	if err != nil {
		t.Fatal(err)
	}
	row, ok := p.TableFor("time.now")["time.now"]
	if got, put := row.Complete(args); !ok || got.String() != `{"digits":3,"zone":"CET"}` || put.String() != `{"digits":3}` {
		t.Errorf("%t, %s, %s", ok, got, put)
	}
	if len(p.TableFor("db.query")) > 0 {
		t.Error("a tool that no rule names has a row")
	}
	raw, err := json.Marshal(p)
	var again Policy
	if err != nil || json.Unmarshal(raw, &again) != nil || again.Digest() != p.Digest() {
		t.Errorf("kept and read again it is another policy: %v", err)
	}
	var words Words
	if err := json.Unmarshal([]byte(`"mcp://docs/{path}"`), &words); err != nil || len(words) != 1 {
		t.Errorf("a word as it was kept before: %v, %v", words, err)
	}
}

func TestToolRulesThatCannotBeReadAreNoLaw(t *testing.T) {
	for path, r := range map[string]Tool{
		"/tools/0/resource/0": {Match: "a.b", Resource: Words{"mcp://{x}/y"}, Then: ThenAsk},
		"/tools/0/resource/1": {Match: "a.b", Resource: Words{"mcp://a/b", "no"}, Then: ThenAsk},
		"/tools/0/effect":     {Match: "a.b", Effect: Words{"none", "irreversible"}, Then: ThenAsk},
		"/tools/0/defaults":   {Match: "a.b", Defaults: map[string]any{"n": 1 << 60}, Then: ThenAsk},
	} {
		p := Default()
		p.Tools = []Tool{r}
		if err := p.Validate(); err == nil || pathOf(err) != path {
			t.Errorf("%+v: %v, want %s", r, err, path)
		}
	}
}
