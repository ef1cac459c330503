package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sealbridge/gateway"
	"sealbridge/gateway/home"
	"sealbridge/gateway/local"
	"sealbridge/manifest"
	"sealbridge/policy/approval"
	"sealbridge/policy/audit"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
)

var _ = register(gateCommand)

func gateCommand(a *app) *cobra.Command {
	c := &cobra.Command{Use: "gate", GroupID: "gates", Short: "questions that wait for you", Example: "  sealbridge gate list\n  sealbridge gate show 7K2Q\n  sealbridge gate allow 7K2Q"}
	c.AddCommand(gateList(a), gateShow(a), gateAllow(a), gateDeny(a), gateCounter(a), gateFiles(a), gateStanding(a), gateRevoke(a), gateExport(a), gateSend(a))
	return c
}

func gateList(a *app) *cobra.Command {
	var all bool
	c := &cobra.Command{Use: "list", Short: "list open questions", Example: "  sealbridge gate list --json", RunE: func(c *cobra.Command, _ []string) error {
		_, cl, err := a.client()
		if err != nil {
			return err
		}
		as, err := local.Asks.Call(c.Context(), cl, all)
		if err != nil {
			return err
		}
		if a.json {
			out := make([]any, len(as))
			for i, v := range as {
				out[i] = shown(v)
			}
			return a.emit(out)
		}
		cs, err := local.Counters.Call(c.Context(), cl, gateway.None{})
		if err != nil {
			return err
		}
		law, err := local.Policy.Call(c.Context(), cl, gateway.None{})
		if err != nil {
			return err
		}
		if w := law.Waiting; w != nil {
			a.print("      policy     policy.yaml permits more than what is in force: %s   sealbridge policy apply\n", tally(w.Difference))
		} else if len(as)+len(cs) == 0 {
			a.print("nothing waits for you\n")
		}
		for _, v := range as {
			title := v.Ask.Title()
			if title != "" {
				title = "   ┆ " + title
			}
			a.print("%s  %-10s %s   %s%s\n", v.Ask.Short(), manifest.GateWord(v.Ask.Gate), v.Ask.Question, became(v), title)
		}
		for _, t := range cs {
			a.print("%s  counter    %s would do it differently: %s   sealbridge propose --counter %s\n", short(t.TaskID), t.With, differences(t.Counter.Terms), short(t.TaskID))
		}
		return nil
	}}
	c.Flags().BoolVar(&all, "all", false, "also what was decided")
	return c
}

// findAsk resolves any unique ending of at least four characters, open ones first.
func findAsk(ctx context.Context, cl *local.Client, ref string) (gateway.AskView, error) {
	return local.Ask.Call(ctx, cl, ref)
}

func gateShow(a *app) *cobra.Command {
	var full, code bool
	c := &cobra.Command{Use: "show ASK", Short: "show a question: what a yes newly permits, then their words", Example: "  sealbridge gate show 7K2Q\n  sealbridge gate show 7K2Q --exit-code || echo not allowed", Args: cobra.ExactArgs(1), RunE: func(c *cobra.Command, args []string) error {
		h, cl, err := a.client()
		if err != nil {
			return err
		}
		v, err := findAsk(c.Context(), cl, args[0])
		if err != nil {
			return err
		}
		if a.json {
			err = a.emit(shown(v))
		} else {
			a.showAsk(v, full)
			if v.State == string(approval.Waiting) && !full && !code && a.terminal() && a.toTerminal() {
				return a.answerHere(c.Context(), h, cl, v.Ask)
			}
		}
		if n := exitOfAsk[approval.Outcome(v.State)]; err == nil && code && n != exitDone {
			err = ended(n)
		}
		return err
	}}
	c.Flags().BoolVar(&full, "full", false, "also everything that others wrote, whole")
	c.Flags().BoolVar(&code, "exit-code", false, "end with 0 allowed, 1 denied, 5 open, 6 expired, 7 withdrawn")
	return c
}

// exitOfAsk are the exit codes of gate show --exit-code: four results and not yet (G4).
var exitOfAsk = map[approval.Outcome]int{approval.Waiting: exitNotYet, approval.Allowed: exitDone, approval.Denied: exitNo,
	approval.Expired: exitExpired, approval.Withdrawn: exitWithdrawn}

// shown is an ask as JSON: the Chips shape, its state, and why it ended so.
func shown(v gateway.AskView) jcs.Value {
	out := approval.Chips(v.Ask, approval.Outcome(v.State))
	if why, ok := jcs.Text(v.Why); ok && v.Why != "" {
		out = out.With("why", why)
	}
	return out
}

// showAsk is the card of an open ask; of a closed one, what became of it stands first.
func (a *app) showAsk(v gateway.AskView, full bool) {
	if v.State != string(approval.Waiting) {
		a.print("%s\n\n", strings.ToUpper(became(v)))
	}
	a.print("%s", approval.Card(v.Ask, a.now(), a.width(), time.Local))
	if full {
		a.print("%s", approval.View(v.Ask, a.width()))
	}
}

// became says in a few words what an ask came to.
func became(v gateway.AskView) string {
	switch approval.Outcome(v.State) {
	case approval.Waiting:
		return "no at " + inLocal(v.Ask.Until.Time())
	case approval.Expired:
		return "expired at " + inLocal(v.Ask.Until.Time())
	}
	text := v.State + " at " + inLocal(v.Closed)
	if v.Why != "" {
		text += ": " + manifest.Display(v.Why, 200)
	}
	return text
}

func gateAllow(a *app) *cobra.Command {
	var d device
	var more standingFlags
	c := &cobra.Command{Use: "allow ASK", Short: "say yes to exactly what is shown", Args: cobra.ExactArgs(1),
		Example: "  sealbridge gate allow 7K2Q\n  sealbridge gate allow 7K2Q --standing --uses 5 --for 7d\n  sealbridge gate allow ask.json --as phone.key --certificate phone.json -o yes.json", RunE: func(c *cobra.Command, args []string) error {
			if err := more.check(c, d); err != nil {
				return err
			}
			if d.key != "" {
				return a.allowAs(c.Context(), args[0], d)
			}
			h, cl, err := a.client()
			if err != nil {
				return err
			}
			v, err := findAsk(c.Context(), cl, args[0])
			if err != nil {
				return err
			}
			say := a.sayYes
			if more.on {
				say = more.say(a)
			}
			out, err := say(c.Context(), h, cl, v.Ask)
			if err != nil {
				return err
			}
			return a.decided(v.Ask, out)
		}}
	d.flags(c)
	more.flags(c)
	return c
}

func gateDeny(a *app) *cobra.Command {
	var reason string
	c := &cobra.Command{Use: "deny ASK", Short: "say no; a no needs no key", Example: "  sealbridge gate deny 7K2Q --reason \"too many files\"", Args: cobra.ExactArgs(1), RunE: func(c *cobra.Command, args []string) error {
		_, cl, err := a.client()
		if err != nil {
			return err
		}
		v, err := findAsk(c.Context(), cl, args[0])
		if err != nil {
			return err
		}
		out, err := local.Deny.Call(c.Context(), cl, gateway.Denial{Ask: v.Ask.AskID.String(), Reason: reason})
		if err != nil {
			return err
		}
		return a.decided(v.Ask, out)
	}}
	c.Flags().StringVar(&reason, "reason", "", "what the other side is told")
	return c
}

// decided says what an answer came to.
func (a *app) decided(ask approval.Ask, out gateway.Decided) error {
	return a.decidedAs(ask.Short(), out)
}

func (a *app) decidedAs(short string, out gateway.Decided) error {
	if a.json {
		if err := a.emit(out); err != nil {
			return err
		}
	} else {
		a.print("%s: %s%s\n", short, out.State, followed(out))
	}
	if out.State == string(approval.Waiting) { // a vote that is not enough yet (G5)
		return ended(exitNotYet)
	}
	return nil
}

func followed(out gateway.Decided) string {
	if out.Need > 1 {
		return fmt.Sprintf(", %d of %d people have said yes", out.Votes, out.Need)
	}
	if out.Outcome == "" {
		return ""
	}
	return ", so this gateway said: " + out.Outcome
}

// sayYes signs a person's yes with the owner's key, here and not in the gateway (G9).
func (a *app) sayYes(ctx context.Context, h *home.Home, cl *local.Client, ask approval.Ask) (out gateway.Decided, err error) {
	owner, presence, err := a.owner(h)
	if err != nil {
		return out, err
	}
	d := approval.Decide(ask, approval.Allow, presence, a.now())
	v, err := manifest.Sign(&d, owner, a.now())
	if err != nil {
		return out, err
	}
	return local.Decide.Call(ctx, cl, gateway.Answer{Decision: v.Wire().String()})
}

// decideHere shows a card and asks once, in line.
func (a *app) decideHere(ctx context.Context, h *home.Home, cl *local.Client, id string) error {
	v, err := findAsk(ctx, cl, id)
	if err != nil {
		return err
	}
	a.note("%s", approval.Card(v.Ask, a.now(), a.width(), time.Local))
	return a.answerHere(ctx, h, cl, v.Ask)
}

// answerHere asks for the letter under a card until it is an answer; Enter alone is none.
func (a *app) answerHere(ctx context.Context, h *home.Home, cl *local.Client, ask approval.Ask) error {
	letters := "advl"
	if approval.CanCounter(ask) {
		letters = "adcvl"
	}
	for {
		k, err := a.choose(strings.Join(strings.Split(letters, ""), ", ")+"? ", letters)
		if err != nil {
			return err
		}
		switch k {
		case 'a':
			out, err := a.sayYes(ctx, h, cl, ask)
			if err == nil {
				a.note("%s: %s%s", ask.Short(), out.State, followed(out))
			}
			return err
		case 'd':
			out, err := local.Deny.Call(ctx, cl, gateway.Denial{Ask: ask.AskID.String()})
			if err != nil {
				return err
			}
			a.note("%s: %s%s", ask.Short(), out.State, followed(out))
			return ended(exitNo)
		case 'c':
			if done, err := a.counterHere(ctx, cl, ask); done || err != nil {
				return err
			}
		case 'v':
			a.note("%s", approval.View(ask, a.width()))
		case 'l':
			return nil
		}
	}
}

func gateFiles(a *app) *cobra.Command {
	var dir string
	c := &cobra.Command{Use: "files ASK -o DIR", Short: "open the files of a delivery before you decide", Example: "  sealbridge gate files 9T4C -o look/", Args: cobra.ExactArgs(1), RunE: func(c *cobra.Command, args []string) error {
		if dir == "" {
			return usage("-o DIR, a new folder")
		}
		abs, err := filepath.Abs(dir)
		if err != nil {
			return err
		}
		return query(a, c, local.Quarantined, gateway.Fetch{Ask: args[0], Dir: abs}, func(out gateway.Fetched) error {
			for _, f := range out.Files {
				a.print("%s\n", filepath.Join(dir, manifest.Display(f, 255)))
			}
			a.note("not accepted yet: these files are the other side's, for your eyes")
			return nil
		})
	}}
	c.Flags().StringVarP(&dir, "out", "o", "", "a new folder")
	return c
}

// knownTo are the owners that this home pinned, as trust for its own reports.
func (a *app) knownTo(ctx context.Context, h *home.Home, cl *local.Client) (map[signing.DID]audit.Known, error) {
	cs, err := local.Contacts.Call(ctx, cl, gateway.None{})
	if err != nil {
		return nil, err
	}
	out := map[signing.DID]audit.Known{h.Owner: {Name: h.Certified().DisplayName, Learned: "this home"}}
	for _, v := range cs {
		did, err := signing.ParseDID(v.Owner)
		if err != nil {
			return nil, err
		}
		if v.Confirmed {
			out[did] = audit.Known{Name: v.Name, Learned: "six words compared"}
		}
	}
	return out, nil
}

func asksOf(ctx context.Context, cl *local.Client) ([]gateway.AskView, error) {
	return local.Asks.Call(ctx, cl, false)
}
