package policy

import (
	"errors"
	"time"

	"sealbridge/manifest"
	"sealbridge/manifest/task"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
)

// CallCase is all that a decision about one call on a tool of ours may look at
// (C5). Whatever is not handed in is missing, and what is missing is refused.
type CallCase struct {
	Call  manifest.Verified // a tool-call; its signer's key counted when it came
	Chain Chain             // the root as we hold it and the links of the call ([Chains.ChainOf])
	Self  signing.DID       // the enforcing agent: our own; for an auditor the one that enforced
	Task  task.Task         // of the root, as it stands
	Table ToolTable

	Children map[signing.Digest]manifest.TaskManifest // child manifests that we know from delegated events (C2d)
	Trust    manifest.Trust                           // whose agents are whose, and what was taken back (C2k)
	Heard    map[signing.DID]time.Time                // by owner: how old its newest "nothing newer" is (I7): the earlier of its at and when it came
	Ledger   Ledger                                   // at least CallAccounts(…)
	Consents []Consent                                // verified decisions about this task
	At       time.Time                                // of this gateway, inside its turn
	Came     time.Time                                // when it took the call, against which the call's own expiresAt is held: a gate has its own time; zero: At

	Contact Contact // for DecideCall only: the owner of the root's audience
}

// CallDecision is the answer to a call: a Decision, which link said no, and
// what the tool is asked where none did.
type CallDecision struct {
	Decision
	Link      int       // that refused; the root is 1, 0: none of them
	Arguments jcs.Value // with the table's defaults: exactly what was checked, and what the tool receives
	Defaults  jcs.Value // those that were put in; zero for none
	Effect    Effect    // who calls what, on which resources, with what: the subject of the gate (EffectSubject)
}

// Denial is the refusal as it stands in a tool-result; nil for an Allow or a Hold.
func (d CallDecision) Denial() *manifest.Denial {
	if d.Outcome != Deny {
		return nil
	}
	return &manifest.Denial{Reason: string(d.Reason), Rule: d.Rule, Link: int64(d.Link), Path: d.Path, Limit: d.Limit}
}

// calling is one call, read.
type calling struct {
	CallCase
	call  *manifest.ToolCall
	root  *manifest.CapabilityToken
	m     manifest.TaskManifest // in force
	row   ToolRow
	args  jcs.Value // completed
	put   jcs.Value // of the table's defaults
	reach []manifest.Resource
}

// Calls is the law of a call: the same at the enforcing gateway and at an
// auditor, but for the ledger that each holds. An Allow costs Moves: one use,
// reserved under the call's digest ([CallHold]).
func Calls(c CallCase) CallDecision { return decideCall(c, nil) }

// DecideCall is Calls, then the owner's rules about its tools, which only narrow.
func (p Policy) DecideCall(c CallCase) CallDecision { return decideCall(c, &p) }

func decideCall(c CallCase, p *Policy) CallDecision {
	k := &calling{CallCase: c}
	for _, rule := range k.rules() {
		if e := rule(); e != nil {
			return k.refused(e)
		}
	}
	d := k.counts()
	if d.Outcome == Allow {
		d.Decision = k.gates(p, d.Decision)
	}
	d.Arguments, d.Defaults, d.Effect = k.args, k.put, k.effect()
	return d
}

// rules are those before the count, in their order.
func (k *calling) rules() []func() *LinkError {
	return []func() *LinkError{k.names, k.contract, k.known, k.living, k.tool, k.reaches, k.arguments}
}

func (k *calling) refused(e *LinkError) CallDecision {
	return CallDecision{Decision: deny(e.Rule, e.Reason, e.Path, e.Limit), Link: e.Link}
}

// DenialOf is what an error of a chain says in a tool-result.
func DenialOf(err error) manifest.Denial {
	var at *LinkError
	if errors.As(err, &at) {
		return manifest.Denial{Reason: string(at.Reason), Rule: at.Rule, Link: int64(at.Link), Path: at.Path, Limit: at.Limit}
	}
	e := specError(err)
	return manifest.Denial{Reason: string(e.Reason), Rule: "C2", Path: e.Path, Limit: e.Limit}
}
