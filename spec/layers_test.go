package spec_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "sealbridge"

// The law: it answers from its arguments and imports nothing above it.
var law = strings.Fields(`spec signing/jcs signing signing/box signing/passkey manifest/schema manifest manifest/task manifest/bridge
	policy policy/approval policy/audit relay`)

// mayImport is the plan of the house: who may import whom, directly. A package
// without a row may not be there; tests are exempt.
var mayImport = map[string]string{
	"spec":         "",
	"spec/vectors": "", // for tests: where vectors of others lie
	"examples":     "", // files that ship in the binary

	"signing/jcs":     "spec",
	"signing":         "spec signing/jcs",
	"signing/box":     "spec signing/jcs signing",
	"signing/passkey": "spec signing/jcs signing",
	"manifest/schema": "spec signing/jcs",
	"manifest":        "spec signing/jcs signing signing/passkey manifest/schema",
	"manifest/task":   "spec signing/jcs signing manifest",
	"manifest/bridge": "spec signing/jcs signing manifest manifest/schema manifest/task",
	"policy":          "spec signing/jcs signing manifest manifest/task",
	"policy/approval": "spec signing/jcs signing manifest manifest/task policy",
	// an auditor reads custody receipts too
	"policy/audit": "spec signing/jcs signing manifest manifest/schema manifest/task policy policy/approval relay",
	"relay":        "spec signing/jcs signing",

	"relay/client": "spec signing/jcs signing relay",
	"relay/server": "spec signing/jcs signing relay",

	"gateway/journal":  "",
	"gateway/artifact": "spec signing/jcs signing signing/box manifest",
	"gateway/runner":   "spec signing/jcs signing manifest",
	"gateway/tools":    "spec signing/jcs signing manifest",
	"gateway/notify":   "spec signing/jcs signing manifest",
	// drafts are YAML like all that a person writes, so home reads them as manifest.Draft
	"gateway/home": "spec signing/jcs signing signing/box manifest policy",
	"gateway":      strings.Join(law, " ") + " gateway/journal gateway/artifact gateway/runner",

	"gateway/local":    strings.Join(law, " ") + " gateway",
	"gateway/console":  strings.Join(law, " ") + " gateway",
	"gateway/mcptools": strings.Join(law, " ") + " gateway",
	"gateway/llmdoor":  strings.Join(law, " ") + " gateway",
}

// anything below them is theirs: they wire, or they stand in for it in tests.
var wires = []string{"cmd/", "relay/relaytest", "gateway/gatewaytest", "signing/passkey/passkeytest", "examples/"}

// doors are the packages that may import a module of others. A module has one
// door; where it has more, the comment says why.
var doors = map[string]string{
	"github.com/gowebpki/jcs":                  "signing/jcs",
	"github.com/go-json-experiment/json":       "signing/jcs",
	"filippo.io/edwards25519":                  "signing",
	"github.com/multiformats/go-multibase":     "signing",
	"filippo.io/hpke":                          "signing/box",
	"github.com/santhosh-tekuri/jsonschema/v6": "manifest/schema",
	"golang.org/x/mod":                         "relay",
	"github.com/nats-io/nats.go":               "relay/client relay/server", // the relay service is a client of its own broker (R3a)
	"github.com/nats-io/nkeys":                 "relay/client relay/server", // both ends of one login
	"github.com/nats-io/nats-server/v2":        "relay/server",
	"github.com/nats-io/jwt/v2":                "relay/server", // answers the callout of an operator's own server (R3a)
	"github.com/prometheus/client_golang":      "relay/server", // its ops port is the only one that is scraped
	"modernc.org/sqlite":                       "gateway/journal",
	"filippo.io/age":                           "gateway/home", // sealed key files (I2)
	"github.com/goccy/go-yaml":                 "gateway/home",
	"github.com/tetratelabs/wazero":            "gateway/runner",
	"github.com/go-webauthn/webauthn":          "gateway/console",
	"github.com/modelcontextprotocol/go-sdk":   "gateway/mcptools gateway/tools", // server and client are one module
	"github.com/spf13/cobra":                   "cmd/sealbridge",
	"github.com/spf13/pflag":                   "cmd/sealbridge", // cobra's flags
	"golang.org/x/term":                        "cmd/sealbridge",
	"golang.org/x/sys":                         "gateway/home gateway/runner gateway/artifact cmd/sealbridge", // what syscall lacks, by platform
}

// hidden are the packages of the standard library that the law may not see:
// clock and chance are arguments, disk and net are somebody else's.
var hidden = strings.Fields(`os os/exec os/user io/ioutil net net/http net/rpc math/rand math/rand/v2 crypto/rand database/sql syscall plugin`)

// allowed are the exceptions to hidden, each with its reason.
var allowed = map[string]string{
	"relay net": "net.ParseIP reads an address literal; nothing is dialled",
}

// clock are the functions of package time that look at a clock or wait.
var clock = strings.Fields("Now Since Until Sleep After AfterFunc Tick NewTimer NewTicker")

type pkg struct {
	ImportPath, Dir string
	GoFiles         []string
	Imports         []string
}

func packages(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-e", "-json=ImportPath,Dir,GoFiles,Imports", "./...")
	cmd.Dir = ".."
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	var ps []pkg
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return ps
		} else if err != nil {
			t.Fatal(err)
		}
		if len(p.GoFiles) > 0 { // a folder of tests only is exempt
			ps = append(ps, p)
		}
	}
}

func TestImportsFollowThePlan(t *testing.T) {
	seen := 0
	for _, p := range packages(t) {
		name := strings.TrimPrefix(p.ImportPath, module+"/")
		row, listed := mayImport[name]
		free := isWire(name)
		if !listed && !free {
			t.Errorf("%s has no row in the plan", name)
			continue
		}
		may := strings.Fields(row)
		for _, imp := range p.Imports {
			ours, isOurs := strings.CutPrefix(imp, module+"/")
			switch {
			case isOurs && !free && !slices.Contains(may, ours):
				t.Errorf("%s imports %s, which the plan does not allow", name, ours)
			case isOurs && !isWire(name) && isWire(ours):
				t.Errorf("%s imports %s, which wires what is below it", name, ours)
			}
			seen++
		}
	}
	if seen < 100 {
		t.Errorf("only %d imports were looked at", seen)
	}
}

func isWire(name string) bool {
	return slices.ContainsFunc(wires, func(w string) bool { return strings.HasPrefix(name, w) })
}

func TestEveryModuleOfOthersHasItsDoor(t *testing.T) {
	for _, p := range packages(t) {
		name := strings.TrimPrefix(p.ImportPath, module+"/")
		for _, imp := range p.Imports {
			host, _, _ := strings.Cut(imp, "/")
			if !strings.Contains(host, ".") {
				continue // the standard library, or ours
			}
			mod := moduleOf(imp)
			if mod == "" {
				t.Errorf("%s imports %s, which has no door", name, imp)
			} else if !slices.Contains(strings.Fields(doors[mod]), name) {
				t.Errorf("%s imports %s; the door to it is %s", name, imp, doors[mod])
			}
		}
	}
}

func moduleOf(imp string) (mod string) {
	for m := range doors {
		if (imp == m || strings.HasPrefix(imp, m+"/")) && len(m) > len(mod) {
			mod = m
		}
	}
	return mod
}

func TestTheLawSeesNoClockDiskNetOrChance(t *testing.T) {
	looked := 0
	for _, p := range packages(t) {
		name := strings.TrimPrefix(p.ImportPath, module+"/")
		if !slices.Contains(law, name) {
			continue
		}
		looked++
		for _, imp := range p.Imports {
			if slices.Contains(hidden, imp) && allowed[name+" "+imp] == "" {
				t.Errorf("%s imports %s", name, imp)
			}
		}
		for _, f := range p.GoFiles {
			for _, use := range clockIn(t, filepath.Join(p.Dir, f)) {
				t.Errorf("%s: time.%s", use.at, use.name)
			}
		}
	}
	if looked < 10 {
		t.Errorf("only %d packages of law were found", looked)
	}
}

func TestTheGatewayNeverDials(t *testing.T) {
	for _, p := range packages(t) {
		name := strings.TrimPrefix(p.ImportPath, module+"/")
		for _, imp := range p.Imports {
			if (name == "gateway" || name == "gateway/journal" || name == "gateway/artifact") && (imp == "net" || strings.HasPrefix(imp, "net/http")) {
				t.Errorf("%s imports %s", name, imp)
			}
		}
	}
}

type use struct {
	at   token.Position
	name string
}

// clockIn lists the calls of a file that look at the clock.
func clockIn(t *testing.T, path string) (uses []use) {
	t.Helper()
	src, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, path, src, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == "time" && slices.Contains(clock, sel.Sel.Name) {
				uses = append(uses, use{fset.Position(sel.Pos()), sel.Sel.Name})
			}
		}
		return true
	})
	return uses
}
