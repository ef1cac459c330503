package policy

import "sealbridge/manifest"

// CallStill says why a call that was decided may not go to its tool any more:
// every rule is looked at again (G12, I7) but the count, in which it has its
// place, and the gate, whose yes it has spent. nil: it may.
func CallStill(c CallCase) *manifest.Denial {
	k := &calling{CallCase: c}
	for _, rule := range k.rules() {
		if e := rule(); e != nil {
			return k.refused(e).Denial()
		}
	}
	return nil
}
