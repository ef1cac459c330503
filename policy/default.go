package policy

import "time"

// Default is the policy that init writes: everybody is refused until a contact
// is confirmed, then asked about; no file leaves unless a person named it.
// Contact and agent are not known yet, so an unconfirmed contact is refused by
// the law (K2) and not by a rule.
func Default() Policy {
	me := []string{"me"}
	return Policy{
		Version: Version1,
		People:  map[string]Person{"me": {Owner: true}},
		Ask: Asks{
			Contract:   Ask{Who: me, Wait: Duration(WaitContract)},
			Effect:     Ask{Who: me, Wait: Duration(WaitEffect), StepUp: true},
			Budget:     Ask{Who: me, Wait: Duration(WaitBudget)},
			Delegation: Ask{Who: me, Wait: Duration(WaitDelegation)},
			Delivery:   Ask{Who: me, Wait: Duration(WaitDelivery)},
		},
		Incoming: []Incoming{{Name: "confirmed contacts, after asking", From: Names{Anyone}, Then: ThenAsk}},
		Outgoing: []Outgoing{{Name: "confirmed contacts, after asking", To: Names{Anyone}, Then: ThenAsk}},
		Tools:    []Tool{{Match: "*", Then: ThenRefuse}},
		Defaults: Defaults{
			Deadline: Duration(48 * time.Hour),
			Gates:    []GateWord{ContractWord, EffectWord, DeliveryWord},
			Budget:   Budget{Time: Duration(15 * time.Minute), Over: "stop"},
		},
	}
}
