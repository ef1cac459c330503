package manifest_test

import (
	"testing"
	"time"

	"sealbridge/manifest"
	"sealbridge/spec"
)

func TestADraftsGrantsBecomeCapabilities(t *testing.T) {
	id, err := manifest.ParseTaskID("task_00000001")
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 12, 1, 9, 0, 0, 0, time.UTC)
	d := manifest.Draft{Title: "x", Goal: "y", Deadline: "2d", Grants: []manifest.DraftGrant{
		{Resource: "mcp://docs/public/*", Tools: []string{"docs.read"}, Uses: 20, Until: "1d", Where: map[string]any{"properties": map[string]any{}}},
		{Resource: "mcp://docs/a.txt", Tools: []string{"docs.read"}, Until: "9d"},
	}}
	m, err := d.Manifest(manifest.Terms{ID: id, At: at})
	if err != nil {
		t.Fatal(err)
	}
	gs := m.Permissions.GrantedCapabilities
	if len(gs) != 2 || gs[0].CapabilityID == gs[1].CapabilityID || gs[0].MaxInvocations != 20 || gs[0].ExpiresAt.String() != "2026-12-02T09:00:00Z" || gs[0].ArgConstraints.String() != `{"properties":{}}` {
		t.Errorf("%+v", gs)
	}
	if gs[1].MaxInvocations != 1 || gs[1].ExpiresAt != m.Deadline || !gs[1].ArgConstraints.IsZero() { // M1: never after the deadline
		t.Errorf("%+v", gs[1])
	}
	for _, g := range []manifest.DraftGrant{{Resource: "mcp://docs/a"}, {Resource: "mcp://docs/a", Tools: []string{"t"}, Until: "soon"}} {
		d.Grants = []manifest.DraftGrant{g}
		if _, err := d.Manifest(manifest.Terms{ID: id, At: at}); spec.ReasonOf(err) != spec.Malformed {
			t.Errorf("%+v: %v", g, err)
		}
	}
}
