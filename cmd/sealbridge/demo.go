package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sealbridge/examples"
	"sealbridge/gateway"
	"sealbridge/manifest"
	"sealbridge/policy/approval"
)

var _ = register(demoCommand)

func demoCommand(a *app) *cobra.Command {
	var keep string
	var verbose, interactive bool
	c := &cobra.Command{Use: "demo", GroupID: "hand", Short: "the whole story on this computer, no keys and no network needed", Example: "  sealbridge demo --keep /tmp/story\n  sealbridge demo --interactive",
		RunE: func(c *cobra.Command, _ []string) error {
			d := &demo{a: a, dir: keep, verbose: verbose, interactive: interactive, procs: map[string]*proc{}}
			return d.run(c.Context())
		}}
	c.Flags().StringVar(&keep, "keep", "", "a new folder that keeps the bundles and the homes")
	c.Flags().BoolVar(&interactive, "interactive", false, "wait for you at each gate, and leave both gateways running")
	c.Flags().BoolVarP(&verbose, "verbose", "v", false, "show every command and what the processes log")
	return c
}

// demo is one telling: a relay and two gateways as processes, everything else
// as a person would type it.
type demo struct {
	a       *app
	dir     string
	verbose bool
	step    int
	procs   map[string]*proc
	port    string
	address string
	task    string
	lead    serverEntry                                   // how Ben's own agent comes to his gateway
	deep    string                                        // the task that may be handed on
	part    string                                        // what is handed on of it
	between func(ctx context.Context, after string) error // tests kill processes here
	within  time.Duration                                 // the whole story; 0: five minutes
	made    bool                                          // dir is there already

	interactive bool        // a person decides, and the processes stay
	lines       chan string // what is typed meanwhile
}

func (d *demo) run(ctx context.Context) (err error) {
	if d.within == 0 {
		d.within = 5 * time.Minute
		if d.interactive { // a person takes their time
			d.within = 24 * time.Hour
		}
	}
	ctx, cancel := context.WithTimeout(ctx, d.within)
	defer cancel()
	if d.dir == "" {
		// Short, because a unix socket's path is.
		if d.dir, err = os.MkdirTemp("", "sb"); err != nil {
			return err
		}
		if !d.interactive {
			defer os.RemoveAll(d.dir)
		}
	} else if err := os.Mkdir(d.dir, 0o700); err != nil && !d.made {
		return usage("--keep needs a new folder: " + err.Error())
	}
	if d.dir, err = filepath.Abs(d.dir); err != nil {
		return err
	}
	if d.interactive {
		return d.told(d.steps(ctx))
	}
	defer d.stopAll()
	if err := d.steps(ctx); err != nil {
		return err
	}
	d.a.print("\nThat is all. %s\n", d.where())
	return nil
}

// scene is a part of the story: tests act after it by its name.
type scene struct {
	name string
	do   func(context.Context) error
}

func (d *demo) steps(ctx context.Context) error {
	all := []scene{
		{"relay", d.startRelay}, {"identities", d.identities}, {"tools", d.lends}, {"gateways", d.gateways}, {"invite", d.invite}, {"words", d.words}, {"agent", d.agent},
		{"propose", d.propose}, {"ann contract", d.annContract}, {"ben contract", d.benContract}, {"work", d.work}, {"calls", d.calls}, {"delivery", d.delivery}, {"result", d.result},
		{"export", d.export}, {"verify", d.verify}, {"forge", d.forge},
	}
	if !d.interactive { // there it ends with what two owners do next
		all = append(all, d.third()...)
	}
	for _, s := range all {
		if err := s.do(ctx); errors.Is(err, errNoYes) {
			return err
		} else if err != nil {
			return hint(fmt.Errorf("demo, step %q: %w", s.name, err), "run it with -v to see every command%s", d.logs())
		}
		if d.between != nil {
			if err := d.between(ctx, s.name); err != nil {
				return fmt.Errorf("after step %q: %w", s.name, err)
			}
		}
	}
	return nil
}

func (d *demo) where() string {
	return "Next: README, first hour: owner."
}

func (d *demo) logs() string {
	var b strings.Builder
	for name, p := range d.procs {
		if p.log == nil { // it is in a file
			continue
		}
		if s := strings.TrimSpace(p.log.String()); s != "" {
			lines := strings.Split(s, "\n")
			fmt.Fprintf(&b, "\n%s: %s", name, lines[len(lines)-1])
		}
	}
	return b.String()
}

// tell starts a step: about three lines each.
func (d *demo) tell(format string, args ...any) {
	d.step++
	d.a.print("%2d  %s\n", d.step, fmt.Sprintf(format, args...))
}

func (d *demo) more(format string, args ...any) {
	d.a.print("      %s\n", fmt.Sprintf(format, args...))
}

// agent writes the examples out and gives Ben's gateway the program.
func (d *demo) agent(ctx context.Context) error {
	dir := filepath.Join(d.dir, "revenue")
	err := fs.WalkDir(examples.Files, "revenue", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := examples.Files.ReadFile(path)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(d.dir, filepath.FromSlash(path)), b, 0o644)
	})
	if err != nil {
		return err
	}
	tool, err := d.caller()
	if err != nil {
		return err
	}
	if _, err := d.must(ctx, "ben", "agent", "add", "coder", "--read-only", dir, "--read-only", filepath.Dir(tool), "--", "/bin/sh", filepath.Join(dir, "agent.sh"), tool); err != nil {
		return err
	}
	d.tell("Ben adds an agent program: a shell script that will run in a box, one process a task.")
	return nil
}

func (d *demo) propose(ctx context.Context) error {
	draft, err := d.draft()
	if err != nil {
		return err
	}
	out, err := ask[gateway.Proposed](ctx, d, "ann", "propose", draft, "--to", "ben")
	if err != nil {
		return err
	}
	d.task = out.Task
	d.tell("Ann asks for work: total sales.csv per region. Nothing has left her gateway yet.")
	d.more("manifest %s", out.Digest)
	return nil
}

// gate waits for a question, shows its card and answers it.
func (d *demo) gate(ctx context.Context, who string, gate manifest.Gate) error {
	a, err := d.asked(ctx, who, gate)
	if err != nil {
		return err
	}
	d.more("┌ %s", a.Question)
	for _, l := range a.Lines {
		d.more("│ %s %-9s %s", l.Mark, l.Word, l.Text)
	}
	if d.interactive {
		return d.byPerson(ctx, who, a)
	}
	_, err = d.must(ctx, who, "gate", "allow", a.AskID.String())
	if err == nil {
		d.more("└ allow")
	}
	return err
}

// asked is the question that waits for an owner at a gate, once it does.
func (d *demo) asked(ctx context.Context, who string, gate manifest.Gate) (a approval.Ask, err error) {
	err = eventually(ctx, "a question for "+who, func() (bool, error) {
		_, cl, err := (&app{home: filepath.Join(d.dir, who)}).client()
		if err != nil {
			return false, err
		}
		as, err := asksOf(ctx, cl)
		if err != nil {
			return false, err
		}
		for _, v := range as {
			if v.Ask.Gate == gate && v.State == string(approval.Waiting) {
				a = v.Ask
				return true, nil
			}
		}
		return false, nil
	})
	return a, err
}

func (d *demo) annContract(ctx context.Context) error {
	d.tell("Ann's gate. What a yes newly permits, in her gateway's words:")
	return d.gate(ctx, "ann", manifest.ContractGate)
}

func (d *demo) benContract(ctx context.Context) error {
	d.tell("Ben's gate. His gateway has checked the contract; Ann's words come last.")
	return d.gate(ctx, "ben", manifest.ContractGate)
}

func (d *demo) work(ctx context.Context) error {
	err := eventually(ctx, "a delivery", func() (bool, error) {
		t, err := ask[gateway.TaskView](ctx, d, "ann", "task", "show", d.task)
		return err == nil && t.State == "delivered" && t.Waiting != "", err
	})
	if err != nil {
		return err
	}
	d.tell("Files went sealed through the relay, Ben's agent worked in its box, a result came back.")
	t, err := ask[gateway.TaskView](ctx, d, "ann", "task", "show", d.task)
	if err != nil {
		return err
	}
	var kinds []string
	for _, m := range t.History {
		kinds = append(kinds, string(m.Kind))
	}
	d.more("%s", strings.Join(kinds, " → "))
	return nil
}

func (d *demo) delivery(ctx context.Context) error {
	d.tell("Ann's gateway has verified the delivery. She may open the files first, in quarantine.")
	return d.gate(ctx, "ann", manifest.DeliveryGate)
}

func (d *demo) result(ctx context.Context) error {
	out := filepath.Join(d.dir, "out")
	err := eventually(ctx, "the result", func() (bool, error) {
		_, code := d.cli(ctx, "ann", "task", "result", d.task, "-o", out)
		return code == 0, nil
	})
	if err != nil {
		return err
	}
	b, err := os.ReadFile(filepath.Join(out, "revenue.csv"))
	if err != nil {
		return err
	}
	if want := "region,total_eur\nsouth,1511.00\nnorth,1325.25\nwest,1009.00\neast,695.05\n"; string(b) != want {
		return fmt.Errorf("revenue.csv is not what the sum is: %q", b)
	}
	d.tell("The result is released: the bytes that were checked.")
	for _, l := range strings.Split(strings.TrimSpace(string(b)), "\n") {
		d.more("%s", l)
	}
	return nil
}
