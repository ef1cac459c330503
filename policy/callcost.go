package policy

import (
	"fmt"
	"slices"

	"sealbridge/manifest"
	"sealbridge/signing"
	"sealbridge/spec"
)

// counts reserves one use of the root, of each link and of the contract's tool
// calls, all or none (C5, B1).
func (k *calling) counts() CallDecision {
	hold := CallHold(k.Call.Digest())
	var moves []Move
	for _, u := range k.uses() {
		one := []Move{{Op: SetLimit, Account: u.account, Amount: u.limit}, {Op: Reserve, Account: u.account, Hold: hold, Amount: 1}}
		if _, err := k.Ledger.Apply(append(slices.Clone(moves), one...)...); err != nil {
			e := &LinkError{u.link, "C5", spec.ReasonOf(err), "/maxInvocations", fmt.Sprint(u.limit)}
			if u.account.Kind == MeterAccount {
				e = &LinkError{0, "B2", spec.ReasonOf(err), "/budget/maxToolInvocations", fmt.Sprint(u.limit)}
			}
			return k.refused(e)
		}
		moves = append(moves, one...)
	}
	return CallDecision{Decision: Decision{Outcome: Allow, Index: -1, Moves: moves}}
}

// use is one count that a call takes from, and the link that it is of.
type use struct {
	link    int
	account Account
	limit   int64
}

// uses are what one call costs: the grant's count first, then each link's, then
// the meter. A root that gives less than its grant has a count of its own.
func (k *calling) uses() []use {
	var out []use
	for _, g := range k.m.Permissions.GrantedCapabilities {
		if g.CapabilityID == k.root.CapabilityID {
			out = append(out, use{1, GrantAccount(k.Task.Key(), k.root.CapabilityID), g.MaxInvocations})
		}
	}
	for n := 1; n <= k.Chain.Len(); n++ {
		out = append(out, use{n, LinkAccount(k.Task.Key(), k.Chain.Link(n).Digest()), k.Chain.Token(n).MaxInvocations})
	}
	return append(out, use{0, MeterOf(k.Task.Key(), ToolInvocations), k.Task.Limits().ToolInvocations})
}

// GrantAccount counts the uses of a grant, over every token that was made of it
// and everybody that they were handed on to (C5).
func GrantAccount(task manifest.TaskKey, id manifest.CapabilityID) Account {
	return Account{Kind: CapabilityCount, Task: task, Name: id.String()}
}

// LinkAccount counts the uses of one token, and of what lies below it.
func LinkAccount(task manifest.TaskKey, link signing.Digest) Account {
	return Account{Kind: CapabilityCount, Task: task, Name: link.String()}
}

// CallAccounts lists what must be read from the journal before deciding a call.
func CallAccounts(root manifest.TaskKey, c Chain) []Account {
	out := []Account{MeterOf(root, ToolInvocations)}
	if t := c.Token(1); t != nil {
		out = append(out, GrantAccount(root, t.CapabilityID))
	}
	for n := 1; n <= c.Len(); n++ {
		out = append(out, LinkAccount(root, c.Link(n).Digest()))
	}
	return out
}

// CallHold names the reservation of one call: by its digest, so that a call
// that comes again finds its own (C4).
func CallHold(call signing.Digest) HoldID { return HoldID(call.String()) }

// CallEnds are the moves that end a call's reservation: charged, unless it is
// known that the tool was not called (C5, B1). Accounts without it are left alone.
func CallEnds(l Ledger, root manifest.TaskKey, c Chain, call signing.Digest, used bool) (out []Move) {
	for _, a := range CallAccounts(root, c) {
		if _, held := l.Of(a).Holds[CallHold(call)]; !held {
			continue
		}
		m := Move{Op: Release, Account: a, Hold: CallHold(call)}
		if used {
			m.Op, m.Amount = Commit, 1
		}
		out = append(out, m)
	}
	return out
}

// UsesLeft is what a tool-result says of the root: what is free of the grant's
// count and of its own (C5).
func UsesLeft(l Ledger, task manifest.TaskKey, root *manifest.CapabilityToken, digest signing.Digest) int64 {
	left := root.MaxInvocations
	for _, a := range []Account{GrantAccount(task, root.CapabilityID), LinkAccount(task, digest)} {
		if l.Has(a) {
			left = min(left, l.Of(a).Free())
		}
	}
	return max(0, left)
}
