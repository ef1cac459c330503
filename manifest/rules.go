package manifest

import (
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"sealbridge/manifest/schema"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// The limits of this package, each with its reason.
const (
	maxTerm         = 90 * 24 * time.Hour // of a contract and of a certificate: a key is seen again by its owner each quarter
	maxBoxKeyTerm   = 21 * 24 * time.Hour // forward secrecy with a stated window (R2)
	maxInviteTerm   = 30 * 24 * time.Hour // an invite is a secret in somebody's chat
	maxInviteToken  = 900                 // one line that no terminal and no chat cuts (K1)
	maxClockAhead   = 60 * time.Second    // T1
	maxNameSegments = 16                  // M3
	maxContactName  = 64                  // characters of a name that we give: it fits on a card
	maxRevoked      = 10_000              // targets that one owner took back: more is a flood
)

func refuse(path, rule string) error { return spec.Refuse(spec.Malformed, path, rule) }

// check holds a contract against M1–M5 and M7. What depends on an instant is [TaskManifest.ValidAt].
func (m *TaskManifest) check() error {
	for _, rule := range []func() error{m.checkTimes, m.checkIDs, m.checkArtifacts, m.checkHosts, m.checkSchemas, m.checkParties} {
		if err := rule(); err != nil {
			return err
		}
	}
	return nil
}

func (m *TaskManifest) checkTimes() error {
	made, end := m.CreatedAt.Time(), m.Deadline.Time()
	switch {
	case !made.Before(end):
		return refuse("/deadline", "M1: after createdAt")
	case end.Sub(made) > maxTerm:
		return refuse("/deadline", "M1: 90 days after createdAt at most")
	case time.Duration(m.Budget.MaxWallClockSeconds)*time.Second > end.Sub(made):
		return refuse("/budget/maxWallClockSeconds", "M1: fits before the deadline")
	}
	for i, g := range m.Permissions.GrantedCapabilities {
		if g.ExpiresAt.After(m.Deadline) {
			return refuse(fmt.Sprintf("/permissions/grantedCapabilities/%d/expiresAt", i), "M1: not after the deadline")
		}
	}
	return nil
}

// ValidAt is the part of M1 that looks at a clock: a proposal's deadline lies
// ahead, its making does not.
func (m *TaskManifest) ValidAt(now time.Time) error {
	if !m.Deadline.Time().After(now) {
		return spec.Refuse(spec.Expired, "/deadline", "M1: in the future when proposed")
	}
	if m.CreatedAt.Time().After(now.Add(maxClockAhead)) {
		return refuse("/createdAt", "T1: 60 s ahead at most")
	}
	return nil
}

func (m *TaskManifest) checkIDs() error {
	seen := map[string]bool{}
	once := func(list string, i int, member, id string) error {
		if seen[id] {
			return refuse(fmt.Sprintf("%s/%d/%s", list, i, member), "M2: ids are unique within their list")
		}
		seen[id] = true
		return nil
	}
	for i, c := range m.Task.AcceptanceCriteria {
		if err := once("/task/acceptanceCriteria", i, "id", c.ID.String()); err != nil {
			return err
		}
	}
	for i, c := range m.Verification.Checks {
		if err := once("/verification/checks", i, "checkId", c.CheckID.String()); err != nil {
			return err
		}
		if c.Kind == "sha256_match" {
			if _, err := signing.ParseDigest("sha256:" + strings.TrimPrefix(c.Target, "sha256:")); err != nil {
				return refuse(fmt.Sprintf("/verification/checks/%d/target", i), "M2: a digest")
			}
		}
	}
	for i, g := range m.Permissions.GrantedCapabilities {
		if err := once("/permissions/grantedCapabilities", i, "capabilityId", g.CapabilityID.String()); err != nil {
			return err
		}
	}
	return nil
}

func (m *TaskManifest) checkArtifacts() error {
	return CheckArtifacts("/io/inputArtifacts", m.IO.InputArtifacts)
}

// CheckArtifacts is M3 for a list: good names, no case-fold twins, none a folder of another.
func CheckArtifacts(path string, refs []ArtifactRef) error {
	names := map[string]bool{}
	for i, a := range refs {
		at := path + "/" + strconv.Itoa(i) + "/name"
		if err := CheckArtifactName(a.Name); err != nil {
			return spec.At(at, err)
		}
		low := strings.ToLower(a.Name)
		if names[low] {
			return refuse(at, "M3: names that differ only in case")
		}
		names[low] = true
	}
	for i, a := range refs {
		low := strings.ToLower(a.Name)
		for cut := strings.LastIndexByte(low, '/'); cut > 0; cut = strings.LastIndexByte(low[:cut], '/') {
			if names[low[:cut]] {
				return refuse(path+"/"+strconv.Itoa(i)+"/name", "M3: a file that is a folder of another")
			}
		}
	}
	return nil
}

// devices are names that Windows keeps for itself, whatever follows the first dot.
var devices = map[string]bool{"con": true, "prn": true, "aux": true, "nul": true, "conin$": true, "conout$": true}

// CheckArtifactName is M3 for one name.
func CheckArtifactName(name string) error {
	const bad = "M3: up to 16 segments of letters, digits, dot, dash, underscore"
	segments := strings.Split(name, "/")
	if name == "" || len(name) > 255 || len(segments) > maxNameSegments {
		return refuse("", bad)
	}
	for _, s := range segments {
		if s == "" || len(s) > 100 || s[0] == '.' || s[0] == '-' || s[len(s)-1] == '.' || strings.Trim(s, idLetters+".") != "" {
			return refuse("", bad)
		}
		base, _, _ := strings.Cut(strings.ToLower(s), ".")
		if devices[base] || len(base) == 4 && (base[:3] == "com" || base[:3] == "lpt") && base[3] >= '0' && base[3] <= '9' {
			return refuse("", "M3: a device name")
		}
	}
	return nil
}

func (m *TaskManifest) checkHosts() error {
	return spec.At("/sandboxPolicy", m.SandboxPolicy.checkHosts())
}

func (p SandboxPolicy) checkHosts() error {
	if (p.NetworkAccess == "allowlist_only") != (len(p.AllowedHosts) > 0) {
		return refuse("/allowedHosts", "M4: exactly with allowlist_only")
	}
	for i, h := range p.AllowedHosts {
		if !IsHost(h) {
			return refuse("/allowedHosts/"+strconv.Itoa(i), "M4: a DNS name or an IP address, no port, no star")
		}
	}
	return nil
}

// IsHost says whether a text names one host as M4 spells it.
func IsHost(h string) bool {
	if a, err := netip.ParseAddr(h); err == nil {
		return a.Zone() == "" && a.String() == h
	}
	for _, label := range strings.Split(h, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' ||
			strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
			return false
		}
	}
	last := h[strings.LastIndexByte(h, '.')+1:]
	_, hex := strings.CutPrefix(last, "0x")
	return !hex && strings.Trim(last, "0123456789") != "" // a number in another spelling is no name: 0x7f.1, 127.1
}

func (m *TaskManifest) checkSchemas() error {
	total := 0
	for _, s := range []struct {
		path string
		doc  jcs.Value
	}{{"/io/inputSchema", m.IO.InputSchema}, {"/io/outputSchema", m.IO.OutputSchema}} {
		if _, err := schema.Parse(s.doc); err != nil {
			return spec.At(s.path, err)
		}
		total += len(s.doc.String())
	}
	for i, g := range m.Permissions.GrantedCapabilities {
		if !g.ArgConstraints.IsZero() {
			if _, err := schema.Parse(g.ArgConstraints); err != nil {
				return spec.At(fmt.Sprintf("/permissions/grantedCapabilities/%d/argConstraints", i), err)
			}
			total += len(g.ArgConstraints.String())
		}
	}
	if total > 96<<10 {
		return spec.Refuse(spec.TooLarge, "/io", "M5: 96 KiB of schemas together")
	}
	return nil
}

func (m *TaskManifest) checkParties() error {
	for _, p := range []struct {
		path string
		of   *Party
	}{{"/requester", &m.Requester}, {"/worker", m.Worker}} {
		if p.of == nil {
			continue
		}
		if p.of.RelayEndpoint != "" {
			if u, err := url.Parse(p.of.RelayEndpoint); err != nil || !u.IsAbs() {
				return refuse(p.path+"/relayEndpoint", "a URI")
			}
		}
		if p.of.OwnerDid == p.of.AgentDid {
			return refuse(p.path+"/agentDid", "I5: owner and agent have different keys")
		}
	}
	if m.Worker != nil && m.Worker.OwnerDid == m.Requester.OwnerDid {
		return refuse("/worker/ownerDid", "M7: requester and worker owners differ")
	}
	return nil
}
