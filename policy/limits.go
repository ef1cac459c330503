package policy

import "time"

// Limits of an ask (G4) and the floods of B9. Each has its reason here and
// stands nowhere else.
const (
	// MaxAskWait: a question older than a week is answered about a world that is gone (G4).
	MaxAskWait = 7 * 24 * time.Hour

	// MaxOpenProposals of one contact: more than a person reads in a sitting; the next is refused with quota.
	MaxOpenProposals = 20
	// MaxOpenAsks before one person; the rest wait in line, so that none is buried.
	MaxOpenAsks = 5
	// MaxUnacceptedBytes of documents of one contact that nobody has accepted: fifty manifests of the largest size.
	MaxUnacceptedBytes = 10 << 20
	// MaxUnacceptedFileBytes of files not yet accepted: two of the largest that a manifest can name.
	MaxUnacceptedFileBytes = 2 << 30
	// MaxRefusalsAnHour to one contact, then silence: a refusal is signed and stored, so it must not cost us more than it costs them.
	MaxRefusalsAnHour = 60

	// MaxHosts of one contract: more than a person reads on a card opens everything.
	MaxHosts = 50

	// MaxRules of one section: a policy is read by a person, top down.
	MaxRules = 200
	// MaxPolicyText of one name, glob or command in characters.
	MaxPolicyText = 500
)

// Waits for an answer where the policy names none: as long as the asker can
// wait without harm. A call waits with a process behind it, a delivery with nothing.
const (
	WaitContract   = 24 * time.Hour
	WaitEffect     = time.Hour
	WaitBudget     = 4 * time.Hour
	WaitDelegation = 24 * time.Hour
	WaitDelivery   = 3 * 24 * time.Hour
)
