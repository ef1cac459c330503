package approval

import (
	"fmt"

	"sealbridge/manifest"
)

// isOpen says that the ask is about an open proposal: a contract with nobody yet (M10).
func isOpen(a Ask) bool {
	if a.Gate != manifest.ContractGate || a.Side != manifest.Requester || isAmendment(a) {
		return false
	}
	_, there := a.Subject.At("/manifest")
	_, worker := a.Subject.At("/manifest/worker")
	return there && !worker
}

// openly asks our owner whether contacts may read what we want done, and offer.
func (w *words) openly() {
	who := names(w.x.Open)
	w.a.Question = fmt.Sprintf("Ask %s who would do this?", cut(who, 120))
	w.a.Effect = "Your gateway signs an open proposal and each of them gets it. It binds nobody; you pick, and are asked again about the contract with whom you picked."
	w.line(Newly, "tell", "title, description, criteria, terms, and names and digests of the files, as below", "to "+who+"; none of them is told of the others")
	w.line(Newly, "offer", "up to "+meters(w.m.Budget.Limits())+"; whoever claims it may ask for other terms", payer(w.m.Budget.CostBearer, w.a.Side, "whoever does it"))
	w.line(Cannot, "cannot", "send a file, spend anything, bind you or them")
	w.contractRisk()
	w.contractText()
}
