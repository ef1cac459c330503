package policy

import (
	"encoding/json"

	"sealbridge/manifest"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
)

// Policy is the owner's law: data. Its rules are read top down, the first that
// fits decides, what none fits is refused. It only narrows (G1).
type Policy struct {
	Version  int               `yaml:"version" json:"version"`
	People   map[string]Person `yaml:"people" json:"people"`
	Ask      Asks              `yaml:"ask" json:"ask"`
	Incoming []Incoming        `yaml:"incoming" json:"incoming"`
	Outgoing []Outgoing        `yaml:"outgoing" json:"outgoing"`
	Tools    []Tool            `yaml:"tools" json:"tools"`
	Reach    []Reach           `yaml:"reach,omitempty" json:"reach,omitempty"`
	Checks   []string          `yaml:"checks" json:"checks"` // commands that a contract may have run over a delivery (M6)
	Defaults Defaults          `yaml:"defaults" json:"defaults"`
}

// Version1 is the only version of a policy.
const Version1 = 1

// Person is one who may be asked: the word owner, or an approver's key.
type Person struct {
	Owner bool        `yaml:"owner,omitempty" json:"owner,omitempty"`
	Key   signing.DID `yaml:"key,omitempty" json:"key,omitzero"`
	Gates []GateWord  `yaml:"gates,omitempty" json:"gates,omitempty"` // that an approver may decide; an owner all
	Until Date        `yaml:"until,omitempty" json:"until,omitempty"` // the last day
}

// UnmarshalYAML reads `me: owner` and `phone: {key: …}`. It gets its reader
// from whoever knows YAML.
func (p *Person) UnmarshalYAML(read func(any) error) error {
	var word string
	if read(&word) == nil {
		if word != "owner" {
			return errPerson
		}
		*p = Person{Owner: true}
		return nil
	}
	type plain Person
	return read((*plain)(p))
}

// GateWord is a gate's short name in a policy: contract, effect, budget, delegation, delivery.
type GateWord string

const (
	ContractWord   GateWord = "contract"
	EffectWord     GateWord = "effect"
	BudgetWord     GateWord = "budget"
	DelegationWord GateWord = "delegation"
	DeliveryWord   GateWord = "delivery"
)

// GateWords lists the five in the order of G1.
func GateWords() []GateWord {
	return []GateWord{ContractWord, EffectWord, BudgetWord, DelegationWord, DeliveryWord}
}

// Gate is the gate that the word stands for; "" for another word.
func (w GateWord) Gate() manifest.Gate {
	switch w {
	case ContractWord:
		return manifest.ContractGate
	case EffectWord:
		return manifest.EffectGate
	case BudgetWord:
		return manifest.BudgetGate
	case DelegationWord:
		return manifest.SubGate
	case DeliveryWord:
		return manifest.DeliveryGate
	}
	return ""
}

// WordOf is the short name of a gate; "" for one that is unknown.
func WordOf(g manifest.Gate) GateWord {
	for _, w := range GateWords() {
		if w.Gate() == g {
			return w
		}
	}
	return ""
}

// Asks say for each gate who is asked and for how long; silence means no (G4).
type Asks struct {
	Contract   Ask `yaml:"contract" json:"contract"`
	Effect     Ask `yaml:"effect" json:"effect"`
	Budget     Ask `yaml:"budget" json:"budget"`
	Delegation Ask `yaml:"delegation" json:"delegation"`
	Delivery   Ask `yaml:"delivery" json:"delivery"`
}

// Of is the row of one gate; the zero Ask, which names nobody, for an unknown one.
func (a Asks) Of(g manifest.Gate) Ask {
	switch g {
	case manifest.ContractGate:
		return a.Contract
	case manifest.EffectGate:
		return a.Effect
	case manifest.BudgetGate:
		return a.Budget
	case manifest.SubGate:
		return a.Delegation
	case manifest.DeliveryGate:
		return a.Delivery
	}
	return Ask{}
}

// Ask is how one gate is asked.
type Ask struct {
	Who      []string `yaml:"who" json:"who"`                               // names in People
	Wait     Duration `yaml:"wait" json:"wait"`                             // 0: the gate's own default
	StepUp   bool     `yaml:"step_up,omitempty" json:"step_up,omitempty"`   // what is irreversible asks again, with presence
	Need     int      `yaml:"need,omitempty" json:"need,omitempty"`         // votes (G5); 0 is 1
	Presence []string `yaml:"presence,omitempty" json:"presence,omitempty"` // that count (G10); none: passkey, device, passphrase
}

// Then is what a rule says.
type Then string

const (
	ThenAllow  Then = "allow" // tools only
	ThenAsk    Then = "ask"
	ThenRefuse Then = "refuse"
)

// Incoming is a rule about work that others ask of our agents.
type Incoming struct {
	Name   string   `yaml:"name" json:"name"`
	From   Names    `yaml:"from" json:"from"`
	Agent  string   `yaml:"agent,omitempty" json:"agent,omitempty"` // who works; needed unless it refuses
	AtMost AtMost   `yaml:"at_most,omitempty" json:"at_most,omitzero"`
	PerDay PerDay   `yaml:"per_day,omitempty" json:"per_day,omitzero"`
	AtOnce *int64   `yaml:"at_once,omitempty" json:"at_once,omitempty"` // tasks under way; absent: no bound
	Tasks  []string `yaml:"tasks,omitempty" json:"tasks,omitempty"`     // task types; absent: any
	Then   Then     `yaml:"then" json:"then"`
}

// Outgoing is a rule about work that our agents ask of others.
type Outgoing struct {
	Name    string   `yaml:"name" json:"name"`
	Agent   string   `yaml:"agent,omitempty" json:"agent,omitempty"` // absent: any of ours
	To      Names    `yaml:"to" json:"to"`
	MaySend []string `yaml:"may_send,omitempty" json:"may_send,omitempty"` // globs of absolute paths; absent: nothing
	AtMost  AtMost   `yaml:"at_most,omitempty" json:"at_most,omitzero"`
	PerDay  PerDay   `yaml:"per_day,omitempty" json:"per_day,omitzero"`
	AtOnce  *int64   `yaml:"at_once,omitempty" json:"at_once,omitempty"`
	Then    Then     `yaml:"then" json:"then"`
}

// AtMost bounds one contract. An absent figure is no bound; 0 is none at all.
type AtMost struct {
	InputTokens     *Amount   `yaml:"input_tokens,omitempty" json:"input_tokens,omitempty"`
	OutputTokens    *Amount   `yaml:"output_tokens,omitempty" json:"output_tokens,omitempty"`
	ToolCalls       *Amount   `yaml:"tool_calls,omitempty" json:"tool_calls,omitempty"`
	Time            *Duration `yaml:"time,omitempty" json:"time,omitempty"`
	DelegationDepth *int64    `yaml:"delegation_depth,omitempty" json:"delegation_depth,omitempty"`
}

// PerDay bounds one UTC day with one contact. An absent figure is no bound.
type PerDay struct {
	Tasks        *Amount `yaml:"tasks,omitempty" json:"tasks,omitempty"`
	InputTokens  *Amount `yaml:"input_tokens,omitempty" json:"input_tokens,omitempty"`
	OutputTokens *Amount `yaml:"output_tokens,omitempty" json:"output_tokens,omitempty"`
	ToolCalls    *Amount `yaml:"tool_calls,omitempty" json:"tool_calls,omitempty"`
}

// Tool is a rule about our own tools, called by others under a contract. A tool
// is called SERVER.NAME, by the server's name in config.yaml.
type Tool struct {
	Match    string         `yaml:"match" json:"match"` // a whole name, or a beginning and *
	Effect   Words          `yaml:"effect,omitempty" json:"effect,omitempty"`
	Resource Words          `yaml:"resource,omitempty" json:"resource,omitempty"` // templates (C1a); none: any argument
	Defaults map[string]any `yaml:"defaults,omitempty" json:"defaults,omitempty"` // arguments that are put in where a call lacks them
	Then     Then           `yaml:"then" json:"then"`
}

// Defaults fill a draft of ours; they bind nobody.
type Defaults struct {
	Deadline Duration   `yaml:"deadline" json:"deadline"`
	Gates    []GateWord `yaml:"gates" json:"gates"`
	Budget   Budget     `yaml:"budget" json:"budget"`
}

// Budget is the budget of a draft that names none.
type Budget struct {
	InputTokens  Amount   `yaml:"input_tokens,omitempty" json:"input_tokens,omitempty"`
	OutputTokens Amount   `yaml:"output_tokens,omitempty" json:"output_tokens,omitempty"`
	ToolCalls    Amount   `yaml:"tool_calls,omitempty" json:"tool_calls,omitempty"`
	Time         Duration `yaml:"time" json:"time"`
	Over         string   `yaml:"over" json:"over"` // stop or ask (B5)
}

// Digest names this policy for ever: the SHA-256 of its canonical JSON (G12).
func (p Policy) Digest() signing.Digest {
	b, err := json.Marshal(p)
	if err != nil {
		return signing.Digest{}
	}
	v, err := jcs.Canonicalize(b)
	if err != nil {
		return signing.Digest{}
	}
	return signing.DigestOf(v.Bytes())
}
