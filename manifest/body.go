package manifest

import (
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

func (Proposed) Kind() Kind   { return KindProposed }
func (Accepted) Kind() Kind   { return KindAccepted }
func (Declined) Kind() Kind   { return KindDeclined }
func (Granted) Kind() Kind    { return KindGranted }
func (Started) Kind() Kind    { return KindStarted }
func (Progressed) Kind() Kind { return KindProgressed }
func (Delegated) Kind() Kind  { return KindDelegated }
func (Asked) Kind() Kind      { return KindAsked }
func (Answered) Kind() Kind   { return KindAnswered }
func (Delivered) Kind() Kind  { return KindDelivered }
func (Rejected) Kind() Kind   { return KindRejected }
func (Completed) Kind() Kind  { return KindCompleted }
func (Failed) Kind() Kind     { return KindFailed }
func (Cancelled) Kind() Kind  { return KindCancelled }
func (TimedOut) Kind() Kind   { return KindTimedOut }
func (Stopped) Kind() Kind    { return KindStopped }
func (Disputed) Kind() Kind   { return KindDisputed }

func fact[T Fact](v jcs.Value) (Fact, error) {
	var f T
	err := jcs.Decode(v, &f)
	return f, err
}

var facts = map[Kind]func(jcs.Value) (Fact, error){
	KindProposed: fact[Proposed], KindAccepted: fact[Accepted], KindDeclined: fact[Declined],
	KindGranted: fact[Granted], KindStarted: fact[Started], KindProgressed: fact[Progressed],
	KindDelegated: fact[Delegated], KindAsked: fact[Asked], KindAnswered: fact[Answered],
	KindDelivered: fact[Delivered], KindRejected: fact[Rejected], KindCompleted: fact[Completed],
	KindFailed: fact[Failed], KindCancelled: fact[Cancelled], KindTimedOut: fact[TimedOut],
	KindStopped: fact[Stopped], KindDisputed: fact[Disputed],
}

// DecodeCanonical reads a body by its kind; an unknown kind is refused.
func (b *Body) DecodeCanonical(v jcs.Value) (err error) {
	member, _ := v.Member("kind")
	kind, _ := member.Text()
	read, ok := facts[Kind(kind)]
	if !ok {
		return spec.Refuse(spec.Malformed, "/kind", "unknown kind")
	}
	b.Fact, err = read(v.Without("kind"))
	return err
}

// EncodeCanonical is the inverse.
func (b Body) EncodeCanonical() (jcs.Value, error) {
	if b.Fact == nil {
		return jcs.Value{}, spec.Refuse(spec.Malformed, "/kind", "missing")
	}
	v, err := jcs.Encode(b.Fact)
	if err != nil {
		return v, err
	}
	kind, _ := jcs.Text(string(b.Fact.Kind()))
	return v.With("kind", kind), nil
}

// MarshalJSON and UnmarshalJSON serve what we store ourselves; an empty body is null.
func (b Body) MarshalJSON() ([]byte, error) {
	if b.Fact == nil {
		return []byte("null"), nil
	}
	v, err := b.EncodeCanonical()
	return v.Bytes(), err
}

func (b *Body) UnmarshalJSON(raw []byte) error {
	if string(raw) == "null" {
		*b = Body{}
		return nil
	}
	v, err := jcs.Canonicalize(raw)
	if err != nil {
		return err
	}
	return b.DecodeCanonical(v)
}

// DecisionIn is the gate-decision that an event carries, or nil (G11).
func DecisionIn(f Fact) *jcs.Value {
	switch f := f.(type) {
	case Proposed:
		return f.Decision
	case Accepted:
		return f.Decision
	case Asked:
		return f.Decision
	case Answered:
		return f.Decision
	case Delegated:
		return f.Decision
	case Completed:
		return f.Decision
	case Progressed:
		if f.Opens != nil {
			return f.Opens.Decision
		}
	}
	return nil
}
