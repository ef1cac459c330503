package approval

import (
	"time"

	"sealbridge/manifest"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// CanCounter says whether a no to this ask can carry a draft: a contract that
// somebody asks of us (G7).
func CanCounter(a Ask) bool {
	return a.Gate == manifest.ContractGate && a.Side == manifest.Worker && !isAmendment(a)
}

// Counter is the contract of an ask with other terms, and what that changes; a
// span as deadline counts from at.
func Counter(a Ask, set []manifest.Setting, at time.Time) (m manifest.TaskManifest, changed []manifest.Difference, err error) {
	if !CanCounter(a) {
		return m, nil, spec.Refuse(spec.NotPermitted, "", "G7: only a contract that another owner proposes can be countered")
	}
	was, err := contract(a)
	if err != nil {
		return m, nil, err
	}
	if m, err = was.Counter(set, at); err != nil {
		return m, nil, err
	}
	return m, manifest.Differences(was, m), m.ValidAt(at)
}

// Changeable are the terms that a counter-proposal may change, as they stand; none where there can be no such thing.
func Changeable(a Ask) []manifest.Setting {
	if m, err := contract(a); err == nil && CanCounter(a) {
		return m.Terms()
	}
	return nil
}

func contract(a Ask) (m manifest.TaskManifest, err error) {
	payload, _ := a.Subject.Member("manifest")
	err = jcs.Decode(payload, &m)
	return m, err
}
