package manifest

import (
	"encoding/base64"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

func (e *Event) check() error {
	if (e.Seq == 1) != (e.Prev == nil) {
		return refuse("/prev", "H1: null exactly for seq 1")
	}
	switch f := e.Body.Fact.(type) {
	case Proposed:
		if err := checkStanding(f.Decision, f.Standing); err != nil {
			return err
		}
		if err := checkParts("/body/passes", f.Passes, "delegation-pass"); err != nil {
			return err
		}
		return checkDecision(f.Decision)
	case Accepted:
		if f.Signature.PayloadDigest != e.ManifestDigest {
			return spec.Refuse(spec.BadDigest, "/body/signature/payloadDigest", "S8")
		}
		if err := checkStanding(f.Decision, f.Standing); err != nil {
			return err
		}
		return checkDecision(f.Decision)
	case Answered:
		return checkDecision(f.Decision)
	case Delegated:
		if err := f.Worker.check("/body/worker"); err != nil {
			return err
		}
		return checkDecision(f.Decision)
	case Completed:
		return checkDecision(f.Decision)
	case Progressed:
		return f.Opens.check()
	case Declined:
		if f.Counter != nil && f.Counter.Kind() != '{' {
			return refuse("/body/counter", "an object")
		}
	case Granted:
		if err := checkParts("/body/above", f.Above, "capability-token"); err != nil {
			return err
		}
		if err := f.Issuer.check("/body/issuer"); err != nil {
			return err
		}
		return checkParts("/body/tokens", f.Tokens, "capability-token")
	case Disputed:
		return checkParts("/body/enclosed", f.Enclosed, "event")
	case Asked:
		return f.check(e)
	case Delivered:
		return f.Delivery.check()
	}
	return nil
}

func (a Asked) check(e *Event) error {
	if (a.Amendment == nil) == (a.Child == nil) {
		return refuse("/body", "H9: an amendment or a child")
	}
	if m := a.Amendment; m != nil {
		if m.Budget == nil && m.Deadline == nil && m.MaxRetries == nil && len(m.Withdraw) == 0 {
			return refuse("/body/amendment", "H10: changes nothing")
		}
	}
	if a.Child != nil {
		if err := a.Child.check(e); err != nil {
			return err
		}
	}
	return checkDecision(a.Decision)
}

func (o *Opens) check() error {
	switch {
	case o == nil:
		return nil
	case !IsHost(o.Host):
		return refuse("/body/opens/host", "M4: a DNS name or an IP address, no port, no star")
	case o.Decision != nil && !isSigned(*o.Decision, "gate-decision"):
		return refuse("/body/opens/decision", "G1: a signed gate-decision")
	}
	return nil
}

func (a *Attestation) check() error {
	if a == nil {
		return nil
	}
	for i, r := range a.Reached {
		at := "/body/delivery/attestation/reached/" + strconv.Itoa(i)
		if !IsHost(r.Host) {
			return refuse(at+"/host", "M4: a DNS name or an IP address, no port, no star")
		}
		for k, text := range r.Addresses {
			if addr, err := netip.ParseAddr(text); err != nil || addr.String() != text || addr.Zone() != "" || addr.Is4In6() {
				return refuse(at+"/addresses/"+strconv.Itoa(k), "X2: an address in its one spelling")
			}
		}
	}
	return nil
}

func (d Delivery) check() error {
	if err := d.Attestation.check(); err != nil {
		return err
	}
	if d.Receipt != nil && !isSigned(*d.Receipt, "usage-receipt") {
		return refuse("/body/delivery/receipt", "V1: a signed usage-receipt")
	}
	return CheckArtifacts("/body/delivery/artifacts", d.Artifacts)
}

// checkDecision looks at a person's yes inside an event; policy opens it and judges it.
func checkDecision(v *jcs.Value) error {
	if v != nil && !isSigned(*v, "gate-decision") {
		return refuse("/body/decision", "G1: a signed gate-decision")
	}
	return nil
}

func checkParts(path string, parts []jcs.Value, name string) error {
	for i, p := range parts {
		if !isSigned(p, name) {
			return refuse(path+"/"+strconv.Itoa(i), "a signed "+name)
		}
	}
	return nil
}

func within(path string, from, to signing.Time, most time.Duration, rule string) error {
	if d := to.Time().Sub(from.Time()); d <= 0 || d > most {
		return refuse(path, rule)
	}
	return nil
}

func (c *AgentCertificate) check() error {
	if c.OwnerDid == c.AgentDid {
		return refuse("/agentDid", "I5: owner and agent have different keys")
	}
	if c.Relay.Did == c.OwnerDid || c.Relay.Did == c.AgentDid {
		return refuse("/relay/did", "I5: the relay has a key of its own")
	}
	return within("/expiresAt", c.IssuedAt, c.ExpiresAt, maxTerm, "I4: 90 days at most")
}

func (b *BoxKey) check() error {
	if b.OwnerDid == b.AgentDid {
		return refuse("/agentDid", "I5: owner and agent have different keys")
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(b.Key)
	if err != nil || base64.RawURLEncoding.EncodeToString(raw) != b.Key || signing.DigestOf(raw) != b.Kid {
		return refuse("/kid", "R2: SHA-256 of the public key")
	}
	return within("/notAfter", b.NotBefore, b.NotAfter, maxBoxKeyTerm, "R2: 21 days at most")
}

func (i *Invite) check() error {
	switch {
	case !isBase64(i.Secret, 16):
		return refuse("/secret", "K1: 128 bits, base64url")
	case !isBase64(i.Ticket, 16):
		return refuse("/ticket", "K1: 128 bits, base64url")
	case i.Relay.Did == i.OwnerDid:
		return refuse("/relay/did", "I5: owner and relay have different keys")
	}
	return nil
}

// isBase64 says whether text is the one spelling of n bytes.
func isBase64(text string, n int) bool {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	return err == nil && len(raw) == n && base64.RawURLEncoding.EncodeToString(raw) == text
}

func (r *Revocation) check() error {
	seen := map[TaskID]bool{}
	for i, s := range r.Stands {
		if seen[s.TaskID] {
			return refuse("/stands/"+strconv.Itoa(i), "H11: one for each task")
		}
		seen[s.TaskID] = true
	}
	return nil
}

func (c *ContactRequest) check() error {
	switch {
	case c.OwnerDid == c.To:
		return refuse("/to", "K1: another owner")
	case !isBase64(c.Proof, 32):
		return refuse("/proof", "K1: 256 bits, base64url")
	case !isSigned(c.Certificate, "agent-certificate"):
		return refuse("/certificate", "K1: a signed agent-certificate")
	case !isSigned(c.BoxKey, "box-key"):
		return refuse("/boxKey", "K1: a signed box-key")
	}
	return nil
}

// isSigned says whether part has the look of a signed document of one type; who uses it opens it.
func isSigned(part jcs.Value, name string) bool {
	_, signed := part.Member("signature")
	return signed && TypeName(part) == name
}

func (a *Acknowledgement) check() error {
	if a.Task == nil && len(a.Documents) == 0 {
		return refuse("", "R4: a task or documents")
	}
	return nil
}

func (*Refusal) check() error        { return nil }
func (*HistoryRequest) check() error { return nil }

func (c *ApproverCertificate) check() error {
	switch {
	case c.OwnerDid == c.ApproverDid:
		return refuse("/approverDid", "I5: owner and approver have different keys")
	case strings.Trim(c.Person, idLetters) != "":
		return refuse("/person", "I5: letters, digits, _ and -")
	}
	if c.Credential != nil {
		if err := c.Credential.Valid(); err != nil {
			return spec.At("/credential", err)
		}
	}
	return within("/expiresAt", c.IssuedAt, c.ExpiresAt, maxTerm, "I5: 90 days at most")
}

// presences are the words of G10; channel:NAME is one more.
var presences = map[string]bool{"passkey": true, "device": true, "passphrase": true, "none": true}

func isPresence(s string) bool {
	name, channel := strings.CutPrefix(s, "channel:")
	return presences[s] || channel && name != "" && onlyIDLetters(name)
}

func (d *GateDecision) check() error {
	switch {
	case !isPresence(d.Presence):
		return refuse("/presence", "G10: passkey, device, passphrase, channel:NAME or none")
	case d.Lasts == "standing" && d.Gate == DeliveryGate:
		return refuse("/lasts", "G6: once for a delivery")
	}
	return nil
}

func (r *UsageReceipt) check() error {
	if r.Complete == (len(r.Missing) > 0) {
		return refuse("/missing", "B7: complete, or what is missing")
	}
	return nil
}

func (k *ArtifactKeys) check() error {
	for i, f := range k.Files {
		if strings.Trim(f.Transfer, "0123456789abcdef") != "" {
			return refuse(fmt.Sprintf("/files/%d/transfer", i), "R5: 32 hex digits")
		}
		if !isBase64(f.Key, 32) {
			return refuse(fmt.Sprintf("/files/%d/key", i), "R5: 256 bits, base64url")
		}
	}
	return nil
}
