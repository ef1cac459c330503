package policy

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sealbridge/manifest"
	"sealbridge/signing"
)

// A small world, so that rules of random policies meet the cases.
var (
	someContacts = []string{"ben", "eve", "zoe"}
	someTypes    = []string{"report", "review"}
	someAgents   = []string{"coder", "scribe"}
	someGlobs    = []string{"/s/**", "/s/*", "/s/a/*.csv", "/s/a/x.csv", "/s/*/x*", "/t/**", "/**", "~/x"}
	somePresence = []string{"passkey", "device", "passphrase", "none"}
	someEffects  = []string{"none", "irreversible", "financial"}
	someTools    = []string{"*", "docs.*", "docs.read", "docs.r*", "mail.send"}
	someHosts    = []string{"*", "api.example.org", "wiki.corp", "10.0.0.7"}
	someNetworks = []string{"10.0.0.0/8", "10.0.0.0/24", "10.0.0.7", "fd00::/8"}
	someChecks   = []string{"python3 check.py", "make test"}
)

type draw struct{ *rapid.T }

func (d draw) subset(of []string, label string) []string {
	return slices.DeleteFunc(slices.Clone(of), func(string) bool { return !rapid.Bool().Draw(d.T, label) })
}

func (d draw) names() Names {
	if rapid.IntRange(0, 2).Draw(d.T, "anyone") > 0 {
		return Names{Anyone}
	}
	return d.subset(someContacts, "name")
}

func (d draw) figure(at ...int64) *int64 {
	return rapid.SampledFrom(append([]*int64{nil, nil, nil, nil, nil, nil}, pointers(at)...)).Draw(d.T, "figure")
}

func pointers(ns []int64) (out []*int64) {
	for _, n := range ns {
		out = append(out, &n)
	}
	return out
}

func (d draw) most() AtMost {
	return AtMost{InputTokens: (*Amount)(d.figure(0, 999, 1000)), OutputTokens: (*Amount)(d.figure(499, 500, 900)), ToolCalls: (*Amount)(d.figure(9, 10)),
		Time: (*Duration)(d.figure(int64(599*time.Second), int64(600*time.Second))), DelegationDepth: d.figure(0, 1)}
}

func (d draw) day() PerDay {
	return PerDay{Tasks: (*Amount)(d.figure(0, 1, 2)), InputTokens: (*Amount)(d.figure(999, 1000, 2000)), OutputTokens: (*Amount)(d.figure(500, 900)), ToolCalls: (*Amount)(d.figure(10, 11))}
}

func (d draw) then() Then {
	return rapid.SampledFrom([]Then{ThenAsk, ThenAsk, ThenRefuse}).Draw(d.T, "then")
}

func (d draw) agent() string {
	return rapid.SampledFrom(append([]string{""}, someAgents...)).Draw(d.T, "agent")
}

func (d draw) incoming() Incoming {
	return Incoming{Name: "in", From: d.names(), Agent: d.agent(), AtMost: d.most(), PerDay: d.day(), AtOnce: d.figure(0, 1, 2), Tasks: d.subset(someTypes, "type"), Then: d.then()}
}

func (d draw) outgoing() Outgoing {
	return Outgoing{Name: "out", Agent: d.agent(), To: d.names(), MaySend: d.subset(someGlobs, "glob"), AtMost: d.most(), PerDay: d.day(), AtOnce: d.figure(0, 1, 2), Then: d.then()}
}

func (d draw) tool() Tool {
	return Tool{Match: rapid.SampledFrom(someTools).Draw(d.T, "match"), Effect: d.subset(someEffects, "effect"),
		Resource: rapid.SampledFrom([]Words{nil, {"mcp://docs/{path}"}}).Draw(d.T, "resource"), Then: rapid.SampledFrom([]Then{ThenAllow, ThenAsk, ThenRefuse}).Draw(d.T, "then")}
}

func (d draw) reach() Reach {
	r := Reach{Host: rapid.SampledFrom(someHosts).Draw(d.T, "host"), Then: rapid.SampledFrom([]Then{ThenAllow, ThenAsk, ThenRefuse}).Draw(d.T, "then")}
	if r.Host != "*" && r.Then != ThenRefuse {
		r.At = d.subset(someNetworks, "at")
		if rapid.Bool().Draw(d.T, "port") {
			r.Ports = []uint16{8080}
		}
	}
	return r
}

func (d draw) ask() Ask {
	who := d.subset([]string{"phone", "nobody"}, "who")
	if rapid.IntRange(0, 9).Draw(d.T, "me") > 0 {
		who = append(who, "me")
	}
	return Ask{Who: who, Wait: Duration(*pointers([]int64{0, int64(time.Minute), int64(8 * 24 * time.Hour)})[rapid.IntRange(0, 2).Draw(d.T, "wait")]),
		StepUp: rapid.Bool().Draw(d.T, "step"), Need: rapid.SampledFrom([]int{0, 1, 1, 1, 2}).Draw(d.T, "need"), Presence: d.subset(somePresence, "presence")}
}

func (d draw) people() map[string]Person {
	out := map[string]Person{}
	if rapid.IntRange(0, 9).Draw(d.T, "me") > 0 {
		out["me"] = Person{Owner: true}
	}
	if rapid.Bool().Draw(d.T, "phone") {
		out["phone"] = Person{Key: rapid.SampledFrom([]signing.DID{ann.agent.DID(), ben.agent.DID()}).Draw(d.T, "key"),
			Gates: rapid.SampledFrom([][]GateWord{{ContractWord}, {ContractWord, DeliveryWord, BudgetWord}, GateWords()}).Draw(d.T, "gates"),
			Until: rapid.SampledFrom([]Date{"", "2026-11-29", "2027-06-30"}).Draw(d.T, "until")}
	}
	return out
}

func (d draw) policy() Policy {
	return Policy{Version: 1, People: d.people(), Ask: Asks{d.ask(), d.ask(), d.ask(), d.ask(), d.ask()}, Incoming: many(d, d.incoming), Outgoing: many(d, d.outgoing),
		Tools: many(d, d.tool), Reach: many(d, d.reach), Checks: d.subset(someChecks, "check"), Defaults: Default().Defaults}
}

func many[T any](d draw, one func() T) (out []T) {
	for range rapid.IntRange(0, 3).Draw(d.T, "n") {
		out = append(out, one())
	}
	return out
}

// near is a policy that differs from p in few places: most random pairs widen somewhere, these often do not.
func (d draw) near(p Policy) Policy {
	p.People, p.Incoming, p.Outgoing, p.Tools, p.Checks = maps.Clone(p.People), slices.Clone(p.Incoming), slices.Clone(p.Outgoing), slices.Clone(p.Tools), slices.Clone(p.Checks)
	p.Reach = slices.Clone(p.Reach)
	for range rapid.IntRange(1, 3).Draw(d.T, "edits") {
		i := func(n int) int { return rapid.IntRange(0, max(0, n-1)).Draw(d.T, "at") }
		switch rapid.IntRange(0, 17).Draw(d.T, "edit") {
		case 0:
			p.People = d.people()
		case 1:
			*[]*Ask{&p.Ask.Contract, &p.Ask.Effect, &p.Ask.Budget, &p.Ask.Delegation, &p.Ask.Delivery}[i(5)] = d.ask()
		case 13, 14:
			a, n := []*Ask{&p.Ask.Contract, &p.Ask.Budget, &p.Ask.Delivery}[i(3)], d.ask()
			switch i(5) {
			case 0:
				a.Who = n.Who
			case 1:
				a.Wait = n.Wait
			case 2:
				a.StepUp = n.StepUp
			case 3:
				a.Need = n.Need
			case 4:
				a.Presence = n.Presence
			}
		case 15:
			if len(p.Outgoing) > 0 {
				p.Outgoing[i(len(p.Outgoing))].MaySend = d.subset(someGlobs, "glob")
			}
		case 2:
			p.Incoming = slices.Insert(p.Incoming, i(len(p.Incoming)), d.incoming())
		case 3:
			p.Outgoing = slices.Insert(p.Outgoing, i(len(p.Outgoing)), d.outgoing())
		case 4:
			slices.Reverse(p.Incoming)
		case 5:
			slices.Reverse(p.Outgoing)
		case 6:
			if len(p.Incoming) > 0 {
				k := i(len(p.Incoming))
				p.Incoming = slices.Delete(p.Incoming, k, k+1)
			}
		case 7:
			if len(p.Outgoing) > 0 {
				k := i(len(p.Outgoing))
				p.Outgoing = slices.Delete(p.Outgoing, k, k+1)
			}
		case 8:
			if len(p.Incoming) > 0 {
				r := &p.Incoming[i(len(p.Incoming))]
				n := d.incoming()
				r.AtMost, r.PerDay, r.AtOnce, r.Agent = n.AtMost, n.PerDay, n.AtOnce, n.Agent
			}
		case 9:
			if len(p.Outgoing) > 0 {
				r := &p.Outgoing[i(len(p.Outgoing))]
				n := d.outgoing()
				r.MaySend, r.AtOnce = n.MaySend, n.AtOnce
			}
		case 10:
			p.Checks = d.subset(someChecks, "check")
		case 11:
			p.Tools = slices.Insert(p.Tools, i(len(p.Tools)), d.tool())
		case 12:
			slices.Reverse(p.Tools)
		case 16:
			p.Reach = slices.Insert(p.Reach, i(len(p.Reach)), d.reach())
		case 17:
			slices.Reverse(p.Reach)
		}
	}
	return p
}

// bases are what both sides may say, in tasks of several shapes; made once, they are signed.
func bases(t *testing.T) (out []Case) {
	command := int64(0)
	for _, typ := range []string{"", "report", "review"} {
		for _, mend := range []func(*manifest.TaskManifest){
			noGates, nil,
			func(m *manifest.TaskManifest) {
				m.Verification.Checks = []manifest.Check{{CheckID: must(manifest.ParseCheckID("chk_1")), Kind: "deterministic_command", Target: "make test", ExpectedExitCode: &command}}
			},
		} {
			s := newScene(t, func(m *manifest.TaskManifest) {
				m.Task.TaskType = typ
				m.SandboxPolicy.NetworkAccess, m.SandboxPolicy.AllowedHosts = "allowlist_only", []string{"api.example.org", "wiki.corp", "else.example"}
				if mend != nil {
					mend(m)
				}
			})
			out = append(out, s.draft(asR, asR, s.proposal()))
			s.say(asR, s.proposal())
			out = append(out, s.draft(asW, asW, s.acceptance()))
			s.say(asW, s.acceptance()).say(asW, manifest.Started{})
			for _, host := range s.m.SandboxPolicy.AllowedHosts {
				out = append(out, s.draft(asW, asW, opens(host, nil)))
			}
			out = append(out, s.draft(asW, asW, s.asks(2000)), s.draft(asR, asR, s.asks(2000)), s.draft(asR, asR, s.asks(999)))
			s.say(asW, s.asks(2000))
			out = append(out, s.draft(asR, asR, manifest.Answered{Ask: s.task.Head(asW).Digest, Yes: true}))
			s.say(asW, s.delivery())
			out = append(out, s.draft(asR, asR, s.completion()), s.draft(asR, asR, manifest.Cancelled{Reason: "enough"}))
		}
	}
	return out
}

// vary puts a case among contacts, agents, files and what the day has used.
func (d draw) vary(c Case) Case {
	c.Contact.Name = rapid.SampledFrom(append([]string{"", "else"}, someContacts...)).Draw(d.T, "contact")
	c.Contact.Confirmed = rapid.IntRange(0, 9).Draw(d.T, "confirmed") > 0
	c.Caller = rapid.SampledFrom(append([]string{"", "third"}, someAgents...)).Draw(d.T, "caller")
	c.Files = d.subset([]string{"/s/a/x.csv", "/s/b", "/s/a/y", "/t/deep/er", "/u"}, "file")
	c.NamedFiles = d.subset(c.Files, "named")
	if rapid.Bool().Draw(d.T, "used") {
		for _, a := range Accounts(c) {
			if a.Kind != MeterAccount && rapid.Bool().Draw(d.T, "account") {
				c.Ledger = c.Ledger.With(a, Balance{Limit: 5000, Committed: rapid.SampledFrom([]int64{0, 1, 400, 1000}).Draw(d.T, "committed")})
			}
		}
	}
	return c
}

// morePermissive says why next lets more happen than old; "" if it does not.
func morePermissive(old, next Decision) string {
	rank := map[Outcome]int{Deny: 0, Hold: 1, Allow: 2}
	switch {
	case rank[next.Outcome] > rank[old.Outcome]:
		return fmt.Sprintf("%v instead of %v", next.Outcome, old.Outcome)
	case rank[next.Outcome] < rank[old.Outcome] || next.Outcome == Deny:
		return ""
	case next.Outcome == Hold:
		return fewer(*old.Gate, *next.Gate)
	}
	return cheaper(old.Moves, next.Moves)
}

func fewer(old, next Gate) string {
	has := func(in []string) func(string) bool { return func(s string) bool { return !slices.Contains(in, s) } }
	switch {
	case next.Gate != old.Gate || next.Subject != old.Subject:
		return "another gate"
	case slices.ContainsFunc(next.Who, has(old.Who)):
		return fmt.Sprintf("asked of %v instead of %v", next.Who, old.Who)
	case slices.ContainsFunc(next.Who, func(s string) bool { return next.Keys[s] != old.Keys[s] }):
		return fmt.Sprintf("keys %v instead of %v", next.Keys, old.Keys)
	case slices.ContainsFunc(next.Presence, has(old.Presence)):
		return fmt.Sprintf("presence %v instead of %v", next.Presence, old.Presence)
	case next.Need < old.Need:
		return fmt.Sprintf("%d votes instead of %d", next.Need, old.Need)
	case old.StepUp && !next.StepUp:
		return "no step-up"
	case next.Until.After(old.Until):
		return fmt.Sprintf("until %v instead of %v", next.Until, old.Until)
	}
	return ""
}

// cheaper: each limit that old puts on an account next puts as low, each reservation as high.
func cheaper(old, next []Move) string {
	for _, m := range old {
		ok := slices.ContainsFunc(next, func(n Move) bool {
			same := n.Op == m.Op && n.Account == m.Account && n.Hold == m.Hold
			return same && (n.Amount == m.Amount || m.Op == SetLimit && n.Amount < m.Amount || m.Op == Reserve && n.Amount > m.Amount)
		})
		if !ok {
			return fmt.Sprintf("without the move %+v", m)
		}
	}
	return ""
}

// TestWhatOnlyNarrowsDecidesNothingMore is G12: where Compare says that a
// change only narrows, no case is decided more permissively.
func TestWhatOnlyNarrowsDecidesNothingMore(t *testing.T) {
	all := bases(t)
	narrowed, changed := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		d := draw{t}
		old := d.policy()
		next := d.near(old)
		if rapid.IntRange(0, 4).Draw(t, "any") == 0 {
			next = d.policy()
		}
		diff := Compare(old, next)
		if diff.Widens() {
			return
		}
		narrowed++
		for range 60 {
			c := d.vary(rapid.SampledFrom(all).Draw(t, "case"))
			before := old.Decide(c)
			if before.Outcome == Hold && rapid.Bool().Draw(t, "answered") {
				c.Consents = []Consent{yes(before.Gate)}
				before = old.Decide(c)
			}
			after := next.Decide(c)
			if !reflect.DeepEqual(before, after) {
				changed++
			}
			if why := morePermissive(before, after); why != "" {
				t.Fatalf("%s\nlines %+v\ncase %T for %q by %q, files %v (named %v)\nold %+v\nnew %+v", why, diff.Lines, c.Event.Body.Fact, c.Contact.Name, c.Caller, c.Files, c.NamedFiles, before, after)
			}
		}
		for _, host := range []string{"api.example.org", "wiki.corp", "10.0.0.7", "else.example"} {
			was, _ := old.Reaches(host)
			is, _ := next.Reaches(host)
			for _, text := range is.At {
				if !networkWithin(text, was.At) {
					t.Fatalf("host %s: at %s too, lines %+v", host, text, diff.Lines)
				}
			}
			if reachRank[is.Then] > reachRank[was.Then] || len(is.Ports) > len(was.Ports) {
				t.Fatalf("host %s: %+v instead of %+v, lines %+v", host, is, was, diff.Lines)
			}
		}
		for _, name := range []string{"docs.read", "docs.r", "docs.", "docs.write", "mail.send", "mail.sendx", "x", ""} {
			was, _ := old.Tool(name)
			is, _ := next.Tool(name)
			rank := map[Then]int{ThenRefuse: 0, ThenAsk: 1, ThenAllow: 2}
			if rank[is.Then] > rank[was.Then] {
				t.Fatalf("tool %q: %s instead of %s, lines %+v", name, is.Then, was.Then, diff.Lines)
			}
		}
	})
	t.Logf("%d of the pairs only narrowed, %d cases were decided otherwise", narrowed, changed)
	if narrowed == 0 || changed == 0 {
		t.Errorf("%d pairs only narrowed, %d cases were decided otherwise: the test tries too little", narrowed, changed)
	}
}

// TestComparingAPolicyWithItselfShowsNothing: names and spelling are no authority.
func TestComparingAPolicyWithItselfShowsNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := draw{t}.policy()
		if d := Compare(p, p); len(d.Lines) != 0 {
			t.Fatalf("%+v", d.Lines)
		}
		q := draw{t}.near(p)
		for i := range q.Incoming {
			q.Incoming[i].Name = "another name"
		}
		if a, b := Compare(p, q), Compare(q, p); a.Widens() == false && b.Widens() == false && (len(a.Lines) > 0 || len(b.Lines) > 0) {
			t.Fatalf("both directions narrow: %+v, %+v", a.Lines, b.Lines)
		}
	})
}

// full is a policy with every member of every type set, so that a walk finds them all.
func fullPolicy() Policy {
	n, a, d := int64(3), Amount(30), Duration(30*time.Minute)
	most := AtMost{InputTokens: &a, OutputTokens: &a, ToolCalls: &a, Time: &d, DelegationDepth: &n}
	day := PerDay{Tasks: &a, InputTokens: &a, OutputTokens: &a, ToolCalls: &a}
	ask := Ask{Who: []string{"me"}, Wait: d, StepUp: true, Need: 3, Presence: []string{"passkey"}}
	p := Policy{Version: 1, People: map[string]Person{"me": {Owner: true}, "phone": {Key: ben.agent.DID(), Gates: []GateWord{ContractWord}, Until: "2027-01-01"}},
		Ask:      Asks{ask, ask, ask, ask, ask},
		Incoming: []Incoming{{Name: "in", From: Names{"ben"}, Agent: "coder", AtMost: most, PerDay: day, AtOnce: &n, Tasks: []string{"report"}, Then: ThenAsk}},
		Outgoing: []Outgoing{{Name: "out", Agent: "coder", To: Names{"ben"}, MaySend: []string{"/s/*"}, AtMost: most, PerDay: day, AtOnce: &n, Then: ThenAsk}},
		Tools:    []Tool{{Match: "docs.*", Effect: Words{"irreversible"}, Resource: Words{"mcp://docs/{path}"}, Defaults: map[string]any{"lang": "en"}, Then: ThenAsk}},
		Reach:    []Reach{{Host: "wiki.corp", At: []string{"10.0.0.0/24"}, Ports: []uint16{8080}, Then: ThenAsk}},
		Checks:   []string{"make"},
		Defaults: Defaults{Deadline: d, Gates: []GateWord{ContractWord}, Budget: Budget{InputTokens: 30, OutputTokens: 30, ToolCalls: 30, Time: d, Over: "ask"}}}
	return p
}

// TestEveryMemberIsCompared changes each leaf of a full policy. Whoever adds a
// member and forgets Compare is told here: a member that is not seen would
// widen without a yes.
func TestEveryMemberIsCompared(t *testing.T) {
	unseen := map[string]bool{"Incoming.0.Name": true, "Outgoing.0.Name": true} // no authority
	leaves := 0
	walkLeaves(reflect.ValueOf(fullPolicy()), "", func(path string) {
		leaves++
		for _, up := range []bool{true, false} {
			p := fullPolicy()
			if !changeLeaf(reflect.ValueOf(&p).Elem(), strings.Split(path, "."), up) {
				continue
			}
			d, back := Compare(fullPolicy(), p), Compare(p, fullPolicy())
			if seen := len(d.Lines) > 0; seen == unseen[path] {
				t.Errorf("%s changed (up %v): %+v", path, up, d.Lines)
			}
			if !unseen[path] && !d.Widens() && !back.Widens() {
				t.Errorf("%s: neither direction widens", path)
			}
		}
	})
	if leaves < 60 {
		t.Errorf("only %d leaves were walked", leaves)
	}
}

func walkLeaves(v reflect.Value, path string, leaf func(string)) {
	join := func(s string) string { return strings.TrimPrefix(path+"."+s, ".") }
	switch {
	case v.Type() == reflect.TypeFor[signing.DID]():
		leaf(path)
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			walkLeaves(v.Field(i), join(v.Type().Field(i).Name), leaf)
		}
	case v.Kind() == reflect.Slice:
		for i := range v.Len() {
			walkLeaves(v.Index(i), join(fmt.Sprint(i)), leaf)
		}
	case v.Kind() == reflect.Map:
		for _, k := range v.MapKeys() {
			walkLeaves(v.MapIndex(k), join(k.String()), leaf)
		}
	case v.Kind() == reflect.Pointer:
		if !v.IsNil() {
			walkLeaves(v.Elem(), path, leaf)
		}
	default:
		leaf(path)
	}
}

// changeLeaf changes one leaf to another good value, upwards or downwards; false where there is only one way.
func changeLeaf(v reflect.Value, path []string, up bool) bool {
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v.Elem().SetInt(map[bool]int64{true: int64(time.Hour), false: 1}[up])
		return true
	}
	if len(path) > 0 {
		switch v.Kind() {
		case reflect.Struct:
			return changeLeaf(v.FieldByName(path[0]), path[1:], up)
		case reflect.Slice:
			var i int
			fmt.Sscan(path[0], &i) //nolint:errcheck // walkLeaves wrote it
			return changeLeaf(v.Index(i), path[1:], up)
		case reflect.Map:
			key := reflect.ValueOf(path[0])
			row := reflect.New(v.Type().Elem()).Elem()
			row.Set(v.MapIndex(key))
			ok := changeLeaf(row, path[1:], up)
			v.SetMapIndex(key, row)
			return ok
		}
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.String:
		if v.Type() == reflect.TypeFor[Then]() {
			v.SetString(map[bool]string{true: string(ThenAllow), false: string(ThenRefuse)}[up])
			return true
		}
		v.SetString(map[string]string{"me": "phone", "ask": "stop", "2027-01-01": "2028-01-01", "contract": "budget", "passkey": "device", "10.0.0.0/24": "10.0.0.0/23"}[v.String()])
		if v.String() == "" {
			v.SetString("/else/*")
		}
	case reflect.Interface:
		v.Set(reflect.ValueOf("else"))
	case reflect.Uint16:
		v.SetUint(v.Uint() + map[bool]uint64{true: 1, false: 2}[up])
	case reflect.Int, reflect.Int64:
		v.SetInt(v.Int() + map[bool]int64{true: int64(time.Second), false: -2}[up])
	default:
		if v.Type() != reflect.TypeFor[signing.DID]() {
			panic(v.Type())
		}
		v.Set(reflect.ValueOf(ann.agent.DID()))
	}
	return true
}

// TestTheStricterOfTwoPermitsNoMoreThanEither is G12 for a change that waits.
func TestTheStricterOfTwoPermitsNoMoreThanEither(t *testing.T) {
	all := bases(t)
	held := 0
	rapid.Check(t, func(t *rapid.T) {
		d := draw{t}
		p := d.policy()
		q := d.near(p)
		for range 40 {
			c := d.vary(rapid.SampledFrom(all).Draw(t, "case"))
			if h := p.Decide(c); h.Outcome == Hold && rapid.Bool().Draw(t, "answered") {
				c.Consents = []Consent{yes(h.Gate)}
			}
			a, b := p.Decide(c), q.Decide(c)
			for _, got := range []Decision{Stricter(a, b), Stricter(b, a)} {
				for _, than := range []Decision{a, b} {
					if why := morePermissive(than, got); why != "" {
						t.Fatalf("%s\na   %+v\nb   %+v\ngot %+v", why, a, b, got)
					}
				}
				if got.Outcome == Hold {
					held++
				}
			}
			if same := Stricter(a, a); !reflect.DeepEqual(same, a) {
				t.Fatalf("Stricter(a, a) = %+v, want %+v", same, a)
			}
		}
	})
	if held == 0 {
		t.Error("nothing was held")
	}
}

// TestACardOfADifferenceIsReadable shows the lines of one change, what it permits first.
func TestACardOfADifferenceIsReadable(t *testing.T) {
	old, next := Default(), Default()
	old.Incoming = []Incoming{{Name: "everybody", From: Names{Anyone}, Then: ThenRefuse}}
	next.Incoming = []Incoming{
		{Name: "small jobs for Ben", From: Names{"ben"}, Agent: "coder", PerDay: PerDay{Tasks: amount(5)}, Then: ThenAsk},
		{Name: "everybody", From: Names{Anyone}, Then: ThenRefuse},
	}
	old.Outgoing[0].MaySend, next.Outgoing[0].MaySend = []string{"/s/**"}, []string{"/s/*.csv", "/t/*"}
	next.Ask.Delivery.Wait, next.Ask.Effect.StepUp = Duration(time.Hour), false
	var got []string
	for _, l := range Compare(old, next).Lines {
		got = append(got, fmt.Sprintf("%s %s  %s (was: %s)", l.Mark, l.Path, l.Text, l.Was))
	}
	want := []string{
		"+ /incoming/0  work from ben: you are asked (was: refused)",
		"~ /ask/effect/step_up  effect: what is irreversible is not asked again (was: asked again)",
		"~ /outgoing/0/may_send  asking anyone: may send /t/* (was: not within what it might send)",
		"- /ask/delivery/wait  delivery: waits for an answer: at most 1h (was: at most 3d)",
		"- /outgoing/0/may_send  asking anyone: not any more /s/** (was: /s/**)",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestAChangeCountsByPassphraseAndByNothingOnlyWhereNothingIsEnough is G12: none counts where it counts for every gate.
func TestAChangeCountsByPassphraseAndByNothingOnlyWhereNothingIsEnough(t *testing.T) {
	p := Default()
	for presence, want := range map[string]bool{"passphrase": true, "none": false, "passkey": false, "device": false, "channel:chat": false, "": false} {
		if p.ChangedBy(presence) != want {
			t.Errorf("ChangedBy(%q) = %v", presence, !want)
		}
	}
	for _, a := range []*Ask{&p.Ask.Contract, &p.Ask.Effect, &p.Ask.Budget, &p.Ask.Delegation} {
		a.Presence = []string{"none"}
	}
	if p.ChangedBy("none") {
		t.Error("none is not enough for a delivery, and yet for a change of its row")
	}
	p.Ask.Delivery.Presence = []string{"passkey", "none"}
	if !p.ChangedBy("none") {
		t.Error("none counts for every gate and not for a change")
	}
}
