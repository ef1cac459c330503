package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sealbridge/gateway/home"
	"sealbridge/spec"
)

// The alerts that ship are rules that Prometheus reads, over figures that the spec names.
func TestTheAlertsAskForWhatTheRelayTells(t *testing.T) {
	code, out, errs := inProcess(nil, "relay", "alerts")
	if code != 0 {
		t.Fatalf("%d %s", code, errs)
	}
	at := filepath.Join(t.TempDir(), "alerts.yaml")
	if err := os.WriteFile(at, []byte(out), 0o600); err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Name  string `yaml:"name"`
			Rules []struct {
				Alert       string            `yaml:"alert"`
				Expr        string            `yaml:"expr"`
				For         string            `yaml:"for"`
				Labels      map[string]string `yaml:"labels"`
				Annotations map[string]string `yaml:"annotations"`
			} `yaml:"rules"`
		} `yaml:"groups"`
	}
	if err := home.ReadYAML(at, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Groups) != 1 || len(file.Groups[0].Rules) != 5 {
		t.Fatalf("%d groups, want one of five rules", len(file.Groups))
	}
	law, _ := spec.File("relay.md")
	for _, r := range file.Groups[0].Rules {
		if r.Alert == "" || r.For == "" || r.Labels["severity"] == "" || r.Annotations["summary"] == "" || r.Annotations["action"] == "" {
			t.Errorf("%+v is not whole", r)
		}
		names := regexp.MustCompile(`sealbridge_\w+`).FindAllString(r.Expr, -1)
		if len(names) == 0 {
			t.Errorf("%s asks for nothing of ours", r.Alert)
		}
		for _, n := range names {
			if !strings.Contains(law, "`"+n+"`") {
				t.Errorf("%s asks for %s, which spec/relay.md does not name", r.Alert, n)
			}
		}
	}
}
