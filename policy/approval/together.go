package approval

import (
	"fmt"
	"strings"

	"sealbridge/manifest"
)

// Together is what a card says of the group that a task belongs to (P4). A
// worker's card has Kind alone: whom else the requester asked it is not told.
type Together struct {
	Kind    manifest.GroupKind
	Need    int64           // deliveries that must be the same
	With    []string        // all contacts that are asked, by our names
	Total   manifest.Meters // what all tasks together may use
	Same    []string        // of a delivery: others who delivered the same
	Differ  []string        // others who delivered something else
	Waiting []string        // others who have delivered nothing good yet
}

// asked says to the requester's owner that the task is one of several.
func (w *words) asked() {
	x := w.x.Together
	if x == nil {
		return
	}
	text := fmt.Sprintf("one of %d tasks for the same work, to %s; each is asked about by itself", len(x.With), names(x.With))
	rule := "the first delivery that passes is taken, the others are cancelled"
	if x.Kind == manifest.Quorum {
		rule = fmt.Sprintf("one is taken once %d deliver the same, the others are cancelled", x.Need)
	}
	w.line(Newly, string(x.Kind), text, rule+"; all together may use "+meters(x.Total))
	w.line(Newly, "tell", "that others are asked too, not whom and how many")
}

// others says to the worker's owner that good work may end with a cancel.
func (w *words) others() {
	x := w.x.Together
	if x == nil {
		return
	}
	text := w.who + " asks others for the same, and takes the first delivery that passes"
	if x.Kind == manifest.Quorum {
		text = w.who + " asks others for the same, and takes one of several equal deliveries"
	}
	w.line(Newly, string(x.Kind), text, "the others are cancelled; what was used until then is used")
}

// decides says what a yes to a delivery means for the others.
func (w *words) decides() {
	x := w.x.Together
	if x == nil {
		return
	}
	var said []string
	say := func(who []string, what string) {
		if len(who) > 0 {
			said = append(said, names(who)+" "+what)
		}
	}
	if x.Kind == manifest.Quorum {
		say(x.Same, "delivered the same")
		say(x.Differ, "delivered something else")
	} else {
		say(append(append([]string{}, x.Same...), x.Differ...), "delivered too")
	}
	say(x.Waiting, "delivered nothing yet")
	if len(said) > 0 {
		w.line(Newly, string(x.Kind), "a yes takes this delivery and ends the others: "+strings.Join(said, "; "))
	}
}

// names joins names that we gave: Ben, Cleo and Dan.
func names(of []string) string {
	shown := make([]string, len(of))
	for i, n := range of {
		shown[i] = manifest.Display(n, 64)
	}
	if n := len(shown); n > 1 {
		return strings.Join(shown[:n-1], ", ") + " and " + shown[n-1]
	}
	return strings.Join(shown, "")
}
