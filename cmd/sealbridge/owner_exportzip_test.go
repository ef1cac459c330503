package main

import (
	"archive/zip"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sealbridge/gateway"
	"sealbridge/manifest"
)

func TestACaseGoesOutInOneFileAndItsFilesAreNamed(t *testing.T) {
	ann, ben := homes(t)
	code, out, errs := of(ann, "propose", draft(t), "--to", "Ben", "--json")
	var p gateway.Proposed
	if err := json.Unmarshal([]byte(out), &p); code != 0 || err != nil {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
	ann.Allow(manifest.ContractGate)
	ben.Allow(manifest.ContractGate)
	ann.Ask(manifest.DeliveryGate)
	dir := t.TempDir()
	early, whole := filepath.Join(dir, "early.zip"), filepath.Join(dir, "case.zip")
	if code, out, errs := of(ann, "export", p.Task, "-o", early, "--files"); code != 0 {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
	if got := namesIn(t, early); !slices.Equal(got, []string{"bundle.json", "inputs/sales.csv"}) {
		t.Errorf("before the delivery is accepted: %v; nothing unreleased leaves by this door", got)
	}
	ann.Allow(manifest.DeliveryGate)
	ann.Until("released", func() error {
		v, err := ann.G.Task(t.Context(), gateway.Owner, gateway.Ref{Task: p.Task})
		if err == nil && !v.Released {
			err = os.ErrNotExist
		}
		return err
	})
	if code, out, errs := of(ann, "export", p.Task, "-o", whole, "--files"); code != 0 {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
	if got := namesIn(t, whole); !slices.Equal(got, []string{"bundle.json", "delivered/count.csv", "delivered/result.json", "inputs/sales.csv"}) {
		t.Errorf("names %v", got)
	}
	code, out, _ = of(ann, "verify", whole, "--require", "binding")
	if code != 0 || !strings.Contains(out, "is the delivered count.csv (revision 1)") || !strings.Contains(out, "is the delivered result (revision 1)") || strings.Contains(out, "NOT VERIFIED") {
		t.Errorf("verify exits %d:\n%s", code, out)
	}
	if code, _, errs := of(ann, "export", p.Task, "-o", filepath.Join(dir, "x.json"), "--files"); code != exitUsage {
		t.Errorf("files without a zip: exit %d %s", code, errs)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".export-*")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func namesIn(t *testing.T, path string) (names []string) {
	t.Helper()
	r, err := zip.OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for _, f := range r.File {
		names = append(names, f.Name)
	}
	slices.Sort(names)
	return names
}
