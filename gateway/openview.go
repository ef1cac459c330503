package gateway

import (
	"sort"
	"time"

	"sealbridge/manifest"
)

// OfferView is an open proposal: one of ours with what was claimed, or one that a contact sent us.
type OfferView struct {
	ID     string             `json:"taskId"`
	Ours   bool               `json:"ours"`
	With   []string           `json:"with"` // whom it went to, or who sent it
	Title  string             `json:"title"`
	State  string             `json:"state"` // ours: drafted, sent, picked, dropped, over; theirs: open, claimed
	Until  time.Time          `json:"until"`
	Digest string             `json:"digest"`
	Claims []ClaimView        `json:"claims"`
	Picked string             `json:"picked,omitempty"`
	Text   string             `json:"text,omitempty"` // of one that is shown alone: their words
	Terms  []manifest.Setting `json:"terms,omitempty"`
	At     time.Time          `json:"at"`
}

// ClaimView is one claim, with what it changes.
type ClaimView struct {
	By    string                `json:"by"`
	At    time.Time             `json:"at"`
	Terms []manifest.Difference `json:"terms"`
}

func (t *turn) openView(row openRow) (v OfferView, err error) {
	v = OfferView{ID: row.Key.ID.String(), Ours: true, Title: manifest.Display(row.Title, 200), State: row.state(t.now), Until: row.Until, Digest: row.Digest.String(), Claims: []ClaimView{}, Picked: row.Picked, At: row.At}
	m, err := manifest.ReadManifest(row.Payload)
	if err != nil {
		return v, err
	}
	for _, owner := range row.To {
		v.With = append(v.With, t.trust.Contacts[owner].Name)
		if c, ok := row.Claims[owner.String()]; ok {
			other, err := c.Claim.TermsOf(m)
			if err != nil {
				return v, err
			}
			v.Claims = append(v.Claims, ClaimView{t.trust.Contacts[owner].Name, c.At, append([]manifest.Difference{}, manifest.Differences(m, other)...)})
		}
	}
	sort.SliceStable(v.Claims, func(i, k int) bool { return v.Claims[i].At.Before(v.Claims[k].At) })
	return v, nil
}
