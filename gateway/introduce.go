package gateway

import (
	"encoding/base64"
	"io"
	"slices"
	"time"

	"sealbridge/gateway/journal"
	"sealbridge/manifest"
	"sealbridge/policy"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// keepIntroduced is how long an introduction outlives the deadline of its task:
// the last answers are still on their way then.
const keepIntroduced = 24 * time.Hour

// introducing is what an event of another owner says of a third one (C7): the
// worker of a child that was delegated, and whose tools a link is for.
func introducing(f manifest.Fact) *manifest.Introduction {
	switch f := f.(type) {
	case manifest.Delegated:
		return f.Worker
	case manifest.Granted:
		return f.Issuer
	}
	return nil
}

// introducedIn are the owners whom the events of a task introduce.
func introducedIn(facts []manifest.Fact) (out []signing.DID) {
	for _, f := range facts {
		in := introducing(f)
		if in == nil {
			continue
		}
		if c, err := in.Agent(); err == nil && !slices.Contains(out, c.OwnerDid) {
			out = append(out, c.OwnerDid)
		}
	}
	return out
}

// introduced pins whom an event of the other side introduces, for its task.
func (t *turn) introduced(row taskRow, v manifest.Verified) error {
	e, ok := v.Document().(*manifest.Event)
	if !ok || v.Owner() == t.g.Owner || row.Breach != "" { // what the contract does not allow introduces nobody
		return nil
	}
	in := introducing(e.Body.Fact)
	if in == nil {
		return nil
	}
	next, owner, err := t.trust.IntroduceFor(row.Key.String(), *in, t.now)
	if known, no := denial(err); no { // the event stands; nothing is taken from whom it names
		t.g.Log.Warn("an introduction that does not hold", "task", row.Key.ID.String(), "word", known.Reason, "limit", known.Limit)
		return nil
	}
	if err != nil {
		return err
	}
	if err := t.setTrust(next); err != nil {
		return err
	}
	for _, doc := range []jcs.Value{in.Certificate, in.BoxKey} {
		if err := t.append(recDocument, owner.String(), doc.Bytes()); err != nil {
			return err
		}
	}
	if err := t.oweAt(jobDismiss, row.Key.String(), row.Task.Deadline().Add(keepIntroduced), nil); err != nil {
		return err
	}
	return t.owe(jobList, self, nil)
}

// dismiss forgets who was introduced for a task whose time is over.
func (t *turn) dismiss(key string) error {
	row, err := t.row(key)
	if err != nil {
		return err
	}
	if at := row.Task.Deadline().Add(keepIntroduced); t.now.Before(at) { // it was put off
		return t.oweAt(jobDismiss, key, at, nil)
	}
	if err := t.setTrust(t.trust.Dismiss(key)); err != nil {
		return err
	}
	return t.owe(jobList, self, nil)
}

// fromIntroduced is what is taken of an owner who is here for tasks of others
// alone: calls and answers, and what keeps its keys fresh (C7).
func fromIntroduced(d manifest.Document) error {
	switch d.(type) {
	case *manifest.ToolCall, *manifest.ToolResult, *manifest.Acknowledgement, *manifest.Refusal, *manifest.AgentCertificate, *manifest.BoxKey, *manifest.Revocation:
		return nil
	}
	return spec.Refuse(spec.NotPermitted, "", "C7: introduced for its calls alone")
}

// introduce is an agent that we know, as we say it to a third owner.
func (t *turn) introduce(agent signing.DID) (*manifest.Introduction, error) {
	a, ok := t.trust.Agents[agent]
	if !ok {
		return nil, spec.Refuse(spec.Unavailable, "", "C7: no certificate of that agent")
	}
	key := a.Owner
	if key == t.g.Owner {
		return nil, spec.Refuse(spec.Internal, "", "C7: of another owner")
	}
	docs, err := t.identities(key)
	if err != nil {
		return nil, err
	}
	var out manifest.Introduction
	for _, d := range docs {
		s, err := manifest.OpenValue(d, t.g.keys)
		if err != nil {
			return nil, err
		}
		switch k := s.Document().(type) {
		case *manifest.AgentCertificate:
			if s.Digest() == a.Digest {
				out.Certificate = d
			}
		case *manifest.BoxKey:
			if k.AgentDid == agent && k.Seq == a.Key.Seq {
				out.BoxKey = d
			}
		}
	}
	if out.Certificate.IsZero() || out.BoxKey.IsZero() {
		return nil, spec.Refuse(spec.Unavailable, "", "C7: no box-key of that agent yet")
	}
	return &out, nil
}

// children are the contracts below a task of ours that we know from delegated events (C2d).
func (t *turn) children(row taskRow) map[signing.Digest]manifest.TaskManifest {
	out := map[signing.Digest]manifest.TaskManifest{}
	for _, c := range row.Task.Children() {
		if a, ok := newestAsk(row.Task, c.Manifest); ok && a.Part != nil {
			if m, err := a.Part.Contract(); err == nil {
				out[c.Manifest] = m
			}
		}
	}
	return out
}

// handsTokens is the granted event of a part: for each of its grants a link
// below a token that we hold for the task above (C2), with all that stands above.
func (t *turn) handsTokens(row taskRow, grants []manifest.Grant) (said manifest.Granted, err error) {
	held, err := tokens.Group(t.Tx, row.Parent)
	if err != nil {
		return said, err
	}
	once := map[signing.Digest]bool{}
	for _, g := range grants {
		link, chain, err := t.linkFor(row, g, held)
		if err != nil {
			return said, err
		}
		said.Tokens = append(said.Tokens, link)
		for i := 1; i <= chain.Len(); i++ {
			if s := chain.Link(i); !once[s.Digest()] {
				once[s.Digest()] = true
				said.Above = append(said.Above, s.Wire())
			}
		}
		if said.Issuer == nil {
			if said.Issuer, err = t.introduce(chain.Token(1).Issuer); err != nil {
				return said, err
			}
		}
	}
	return said, nil
}

// linkFor signs a link for one grant of a part, below the first token that covers it.
func (t *turn) linkFor(row taskRow, g manifest.Grant, held []journal.Row[tokenRow]) (link jcs.Value, chain policy.Chain, err error) {
	err = spec.Refuse(spec.Unavailable, "", "C2: the token for it is on its way")
	for _, h := range held {
		if chain, err = t.g.chains.OpenValues(t.g.keys, append(slices.Clone(h.V.Above), h.V.Wire)...); err != nil {
			continue
		}
		nonce, e := t.g.nonce()
		if e != nil {
			return link, chain, e
		}
		k, e := policy.Mint(row.Task, g.CapabilityID, &chain, nonce)
		if e != nil {
			err = e
			continue
		}
		v, e := manifest.Sign(k, t.g.Agent, t.now)
		return v.Wire(), chain, e
	}
	return link, chain, err
}

// nonce is 128 bits of chance, base64url.
func (g *Gateway) nonce() (string, error) {
	var b [16]byte
	_, err := io.ReadFull(g.Chance, b[:])
	return base64.RawURLEncoding.EncodeToString(b[:]), err
}
