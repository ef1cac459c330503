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
	payload, _ := a.Subject.Member("manifest")
	var was manifest.TaskManifest
	if err := jcs.Decode(payload, &was); err != nil {
		return m, nil, err
	}
	if m, err = was.Counter(set, at); err != nil {
		return m, nil, err
	}
	return m, manifest.Differences(was, m), m.ValidAt(at)
}
