package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestABinaryThatWillBeGoneIsNotWrittenIntoAClient(t *testing.T) {
	if path, err := ownBinary(""); err == nil { // this test's own binary is the Go tool's
		t.Errorf("took %s", path)
	}
	here := filepath.Join(t.TempDir(), "sealbridge")
	if err := os.WriteFile(here, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	if path, err := ownBinary(here); err != nil || path != here {
		t.Errorf("%s, %v", path, err)
	}
}

func TestAMergeKeepsEveryOtherByteInItsPlace(t *testing.T) {
	for name, tt := range map[string]struct{ before, after string }{
		"no file":      {"", `{"mcpServers":{"sealbridge":E}}`},
		"nothing":      {"{}", `{"mcpServers":{"sealbridge":E}}`},
		"order":        {`{"z":1.50,"mcpServers":{"b":{},"a":{}},"y":"\u00e9"}`, `{"z":1.50,"mcpServers":{"b":{},"a":{},"sealbridge":E},"y":"\u00e9"}`},
		"in its place": {`{"mcpServers":{"sealbridge":{"old":1},"a":{}}}`, `{"mcpServers":{"sealbridge":E,"a":{}}}`},
		"not ours":     {`[]`, ""},
		"a list":       {`{"mcpServers":[]}`, ""},
		"cut off":      {`{"mcpServers":{`, ""},
		"two values":   {`{} {}`, ""},
	} {
		path := filepath.Join(t.TempDir(), "client.json")
		if tt.before != "" {
			if err := os.WriteFile(path, []byte(tt.before), 0o640); err != nil {
				t.Fatal(err)
			}
		}
		e := serverEntry{Command: "/x", Args: []string{"mcp"}, Env: map[string]string{"T": "1"}}
		backup, err := mergeClient(path, "sealbridge", e, time.Unix(0, 0))
		if tt.after == "" {
			if b, _ := os.ReadFile(path); err == nil || string(b) != tt.before {
				t.Errorf("%s: %v; the file is %s", name, err, b)
			}
			continue
		}
		raw, _ := json.Marshal(e)
		b, readErr := os.ReadFile(path)
		got := strings.NewReplacer(" ", "", "\n", "").Replace(string(b))
		if want := strings.Replace(tt.after, "E", string(raw), 1); err != nil || readErr != nil || got != want {
			t.Errorf("%s: %v, %s, want %s", name, err, got, want)
		}
		if tt.before != "" {
			if b, err := os.ReadFile(backup); err != nil || string(b) != tt.before {
				t.Errorf("%s: the backup has %s, %v", name, b, err)
			}
			if i, err := os.Stat(path); err != nil || i.Mode().Perm() != 0o640 {
				t.Errorf("%s: mode %v", name, i.Mode())
			}
		}
	}
}
