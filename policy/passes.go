package policy

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"sealbridge/manifest"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// Passes says why the delegation-passes that came with a contract do not let it
// be (P2, P3); nil if they do. They stand from the root down. A root contract
// with depth has one, of its own; a child has those above it and, with depth,
// one of its own behind them. The signers above the requester are strangers:
// what holds is that each pass was issued by whom the one before it named, is
// narrower than it, and that nobody occurs twice.
//
// The work is bounded: five passes, each opened once (C6).
func Passes(m manifest.TaskManifest, digest signing.Digest, docs []jcs.Value) error {
	var own, above *manifest.DelegationPass
	chain, links, err := openPasses(docs)
	switch {
	case err != nil:
		return err
	case m.ParentTaskID == nil && len(chain) > 1 || m.ParentTaskID != nil && len(chain) == 0:
		return passError(0, spec.NotAttenuated, "P2: the passes from the root down")
	}
	if m.Permissions.MaxDelegationDepth > 0 {
		if len(chain) == 0 {
			return passError(0, spec.NotAttenuated, "P2: a contract with depth comes with its pass")
		}
		own, chain = chain[len(chain)-1], chain[:len(chain)-1]
	}
	if m.ParentTaskID == nil && len(chain) > 0 || m.ParentTaskID != nil && len(chain) == 0 {
		return passError(0, spec.NotAttenuated, "P2: a pass exactly with depth")
	}
	if m.ParentTaskID != nil {
		above = chain[len(chain)-1]
		if err := underPass(m, *above, len(chain)-1); err != nil {
			return err
		}
	}
	if err := follow(links); err != nil {
		return err
	}
	if own != nil {
		return ownPass(m, digest, *own, len(docs)-1)
	}
	return nil
}

// openPasses opens passes, each alone.
func openPasses(docs []jcs.Value) (chain []*manifest.DelegationPass, links []manifest.Signed, err error) {
	if len(docs) > manifest.MaxPasses {
		return nil, nil, passError(manifest.MaxPasses, spec.DepthExceeded, "P2: five steps in all")
	}
	links = make([]manifest.Signed, len(docs))
	for i, doc := range docs {
		if links[i], err = manifest.OpenValue(doc, nil); err != nil {
			return nil, nil, spec.At(passPath(i), err)
		}
		p, ok := links[i].Document().(*manifest.DelegationPass)
		if !ok {
			return nil, nil, passError(i, spec.UnknownType, "P2: a delegation-pass")
		}
		chain = append(chain, p)
	}
	return chain, links, nil
}

// follow holds passes against each other as links of one chain, by the same
// verifier as tokens (C2a to C2c, C2i).
func follow(links []manifest.Signed) error {
	if len(links) == 0 {
		return nil
	}
	var bad *LinkError
	_, err := NewChain(links...)
	if errors.As(err, &bad) {
		return spec.At(passPath(bad.Link-1), bad.Unwrap())
	}
	return err
}

// widerPass says where a pass is not within the one before it, but for its
// depth, which every link of a chain is held against (P1, P3).
func widerPass(above, p *manifest.DelegationPass) *axis {
	n := len(above.Owners)
	switch {
	case p.Nonce != above.Nonce:
		return &axis{"P3", "/nonce", "that of the root"}
	case len(p.Owners) != n+1 || !slices.Equal(p.Owners[:n], above.Owners):
		return &axis{"P3", "/owners", "the owners so far and one more"}
	case p.At.Time().Before(above.At.Time().Add(-MaxAhead)):
		return &axis{"T1", "/at", "not before the pass before it"}
	}
	for _, order := range axes[1:] {
		if err := order(above.Bounds, p.Bounds); err != nil {
			return &axis{"P1", pathOf(err), strings.TrimPrefix(limitOf(err), "P1: ")}
		}
	}
	return nil
}

// underPass holds a child contract against the pass above it: whose it is, that
// it is narrower on every axis, and that its worker is nobody who is in the
// chain already (P3).
func underPass(m manifest.TaskManifest, above manifest.DelegationPass, i int) error {
	last := above.Owners[len(above.Owners)-1]
	switch {
	case above.TaskID != *m.ParentTaskID:
		return passError(i, spec.NotAttenuated, "P2: the pass of the parent")
	case above.Audience != m.Requester.AgentDid || last != manifest.OwnerMark(above.Nonce, m.Requester.OwnerDid):
		return passError(i, spec.WrongSigner, "P2: issued to whoever proposes")
	case m.Worker == nil:
		return spec.Refuse(spec.Malformed, "/body/manifest/worker", "P1: named")
	case slices.Contains(above.Owners, manifest.OwnerMark(above.Nonce, m.Worker.OwnerDid)):
		return spec.Refuse(spec.NotAttenuated, "/body/manifest/worker/ownerDid", "P3: no owner occurs twice in a chain")
	}
	if err := Attenuates(above.Bounds, manifest.BoundsOf(m)); err != nil {
		return spec.At("/body/manifest", err)
	}
	return spec.At("/body/manifest", begins(m, above.At.Time()))
}

// ownPass holds a contract's pass against the contract: it states the same.
func ownPass(m manifest.TaskManifest, digest signing.Digest, p manifest.DelegationPass, i int) error {
	switch {
	case p.TaskID != m.TaskID || p.ManifestDigest != digest:
		return passError(i, spec.BadDigest, "P2: of this contract")
	case p.AgentDid != m.Requester.AgentDid:
		return passError(i, spec.WrongSigner, "S6: the requester's agent")
	case m.Worker == nil || p.Audience != m.Worker.AgentDid:
		return passError(i, spec.WrongSigner, "P2: for the worker's agent")
	case (p.Parent == nil) != (m.ParentTaskID == nil):
		return passError(i, spec.NotAttenuated, "P2: the root has no parent")
	case !p.Bounds.Equal(manifest.BoundsOf(m)):
		return passError(i, spec.NotAttenuated, "P2: states what the contract states")
	}
	n := len(p.Owners)
	if p.Owners[n-2] != manifest.OwnerMark(p.Nonce, m.Requester.OwnerDid) || p.Owners[n-1] != manifest.OwnerMark(p.Nonce, m.Worker.OwnerDid) {
		return passError(i, spec.NotAttenuated, "P3: both owners, last")
	}
	return nil
}

func passPath(i int) string { return "/body/passes/" + strconv.Itoa(i) }

func passError(i int, word spec.Reason, limit string) error {
	return spec.Refuse(word, passPath(i), limit)
}
