package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
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

// proc is one process of the demo.
type proc struct {
	cmd  *exec.Cmd
	args []string
	done chan struct{}
	log  *bytes.Buffer
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

// start runs this binary as a process of its own and returns the first line that ready matches.
func (d *demo) start(ctx context.Context, name string, ready *regexp.Regexp, args ...string) (string, error) {
	if d.interactive {
		return d.detached(name, ready, args)
	}
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	p := &proc{cmd: exec.CommandContext(ctx, self, args...), args: args, done: make(chan struct{}), log: &bytes.Buffer{}}
	p.cmd.Env = append(os.Environ(), runAsSelf+"=1")
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	if p.cmd.Stderr = io.Writer(p.log); d.verbose {
		p.cmd.Stderr = d.a.err
	}
	if err := p.cmd.Start(); err != nil {
		return "", err
	}
	d.procs[name] = p
	found := make(chan string, 1)
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if m := ready.FindString(lines.Text()); m != "" {
				select {
				case found <- m:
				default:
				}
			}
		}
		p.cmd.Wait() //nolint:errcheck // how it ended is looked at by whoever waits
		close(p.done)
	}()
	select {
	case m := <-found:
		return m, nil
	case <-p.done:
		return "", fmt.Errorf("%s ended: %s", name, p.log)
	case <-time.After(30 * time.Second):
		return "", fmt.Errorf("%s did not start", name)
	}
}

// kill ends a process as a power cut would.
func (d *demo) kill(name string) {
	if p := d.procs[name]; p != nil {
		p.cmd.Process.Kill() //nolint:errcheck // it may have ended
		<-p.done
		delete(d.procs, name)
	}
}

func (d *demo) stopAll() {
	for name := range d.procs {
		d.kill(name)
	}
}

// cli runs a command as a person would, and returns its stdout.
func (d *demo) cli(ctx context.Context, who string, args ...string) (string, int) {
	if who != "" {
		args = append([]string{"--home", filepath.Join(d.dir, who)}, args...)
	}
	if d.verbose {
		d.more("$ sealbridge %s", strings.Join(args, " "))
	}
	var out, errs bytes.Buffer
	code := run(ctx, args, strings.NewReader(""), &out, &errs)
	if code != 0 {
		return out.String() + errs.String(), code
	}
	return out.String(), 0
}

func (d *demo) must(ctx context.Context, who string, args ...string) (string, error) {
	out, code := d.cli(ctx, who, args...)
	if code != 0 {
		return out, fmt.Errorf("sealbridge %s: exit %d: %s", strings.Join(args, " "), code, strings.TrimSpace(out))
	}
	return out, nil
}

func ask[T any](ctx context.Context, d *demo, who string, args ...string) (v T, err error) {
	out, err := d.must(ctx, who, append(args, "--json")...)
	if err != nil {
		return v, err
	}
	return v, json.Unmarshal([]byte(out), &v)
}

// eventually asks again until ok, for what happens by itself in another process.
func eventually(ctx context.Context, what string, ok func() (bool, error)) error {
	t := time.NewTicker(20 * time.Millisecond)
	defer t.Stop()
	var last error
	for {
		done, err := ok()
		if err == nil && done {
			return nil
		}
		last = err
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w (last: %v)", what, ctx.Err(), last)
		case <-t.C:
		}
	}
}

var addressLine = regexp.MustCompile(`(wss?|nats|tls)://[^ "]+/z6Mk[1-9A-HJ-NP-Za-km-z]+`)

func (d *demo) startRelay(ctx context.Context) (err error) {
	if d.port, err = freePort(); err != nil {
		return err
	}
	if err := d.relayUp(ctx); err != nil {
		return err
	}
	d.tell("A relay starts. It carries sealed bytes and can read none of them.")
	d.more("%s", d.address)
	return nil
}

func (d *demo) relayUp(ctx context.Context) (err error) {
	d.address, err = d.start(ctx, "relay", addressLine, "relay", "--listen", "127.0.0.1:"+d.port, "--store", filepath.Join(d.dir, "relay"))
	return err
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}

func (d *demo) identities(ctx context.Context) error {
	for _, who := range []string{"ann", "ben"} {
		if _, err := d.must(ctx, who, "init", "--name", strings.ToUpper(who[:1])+who[1:], "--relay", d.address, "--unsealed"); err != nil {
			return err
		}
	}
	d.tell("Ann and Ben make identities. Owner and agent have different keys.")
	d.more("unsealed here, because nobody types a passphrase; every yes below says presence: none")
	return nil
}

var serving = regexp.MustCompile(`Sealbridge gateway`)

func (d *demo) serve(ctx context.Context, who string) error {
	console := "off"
	if d.interactive { // the fixed port is one owner's; the other gets any
		console = map[string]string{"ann": "7811", "ben": "0"}[who]
	}
	_, err := d.start(ctx, who, serving, "--home", filepath.Join(d.dir, who), "serve", "--console", console, "--log-level", logLevel(d.verbose))
	return err
}

func (d *demo) gateways(ctx context.Context) error {
	for _, who := range []string{"ann", "ben"} {
		if err := d.serve(ctx, who); err != nil {
			return err
		}
	}
	d.tell("Two gateways run, as processes of their own.")
	return nil
}

func (d *demo) invite(ctx context.Context) error {
	out, err := d.invites(ctx, "ann", "ben")
	if err == nil {
		d.tell("Ann sends Ben an invite: one line of %d characters, good once.", len(out.Token))
	}
	return err
}

// invites makes an invite at one owner's and redeems it at the other's.
func (d *demo) invites(ctx context.Context, from, to string) (out gateway.Invited, err error) {
	err = eventually(ctx, "an invite", func() (ok bool, err error) {
		out, err = ask[gateway.Invited](ctx, d, from, "invite")
		return err == nil, err
	})
	if err != nil {
		return out, err
	}
	return out, eventually(ctx, "redeeming", func() (bool, error) {
		_, err := d.must(ctx, to, "contact", "add", out.Token)
		return err == nil, err
	})
}

func (d *demo) words(ctx context.Context) error {
	words, err := d.compare(ctx, "ann", "ben")
	if err != nil {
		return err
	}
	d.tell("Both screens show the same six words; a person at each end says so.")
	d.more("%s", words)
	return nil
}

// compare confirms two owners to each other, if both screens show the same words.
func (d *demo) compare(ctx context.Context, one, other string) (string, error) {
	seen := func(at, whom string) (v gateway.ContactView, err error) {
		err = eventually(ctx, at+" to know "+whom, func() (bool, error) {
			cs, err := ask[[]gateway.ContactView](ctx, d, at, "contact", "list")
			i := slices.IndexFunc(cs, func(c gateway.ContactView) bool { return strings.EqualFold(c.Name, whom) })
			if i >= 0 {
				v = cs[i]
			}
			return i >= 0, err
		})
		return v, err
	}
	a, err := seen(one, other)
	if err != nil {
		return "", err
	}
	b, err := seen(other, one)
	if err != nil {
		return "", err
	}
	if a.Words != b.Words {
		return "", fmt.Errorf("the words differ: %q and %q", a.Words, b.Words)
	}
	for who, name := range map[string]string{one: a.Name, other: b.Name} {
		if _, err := d.must(ctx, who, "contact", "confirm", name, "--words", a.Words); err != nil {
			return "", err
		}
	}
	return a.Words, nil
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

// exports writes the bundle of a task at the first of two owners, once both have heard all of it.
func (d *demo) exports(ctx context.Context, task, name, at, other string) (bundle string, err error) {
	bundle = filepath.Join(d.dir, name)
	err = eventually(ctx, "both sides to have acknowledged", func() (bool, error) {
		for _, w := range []string{at, other} {
			s, err := ask[gateway.Status](ctx, d, w, "status")
			if err != nil || s.Outgoing > 0 {
				return false, err
			}
		}
		return true, nil
	})
	if err != nil {
		return "", err
	}
	_, err = d.must(ctx, at, "export", task, "-o", bundle)
	return bundle, err
}

func (d *demo) export(ctx context.Context) error {
	bundle, err := d.exports(ctx, d.task, "bundle.json", "ann", "ben")
	if err != nil {
		return err
	}
	info, err := os.Stat(bundle)
	if err != nil {
		return err
	}
	d.tell("Ann exports the evidence: %d bytes of signed documents.", info.Size())
	return nil
}

func (d *demo) verify(ctx context.Context) error {
	d.tell("Anybody can check it offline, with nothing but the file:")
	return d.binds(ctx, "bundle.json")
}

// binds verifies a bundle and shows what the check says first.
func (d *demo) binds(ctx context.Context, bundle string) error {
	out, err := d.must(ctx, "", "verify", filepath.Join(d.dir, bundle), "--require", "binding")
	if err != nil {
		return err
	}
	for i, l := range strings.Split(strings.TrimRight(out, "\n"), "\n") {
		if i < 2 || strings.HasPrefix(l, "Outcome") {
			d.more("%s", l)
		}
	}
	return nil
}

// forge changes one figure of the evidence and sees it refused.
func (d *demo) forge(ctx context.Context) error {
	b, err := os.ReadFile(filepath.Join(d.dir, "bundle.json"))
	if err != nil {
		return err
	}
	i := bytes.Index(b, []byte(`1511.00`))
	if i < 0 {
		return fmt.Errorf("the bundle does not say 1511.00")
	}
	b[i] = '9'
	forged := filepath.Join(d.dir, "forged.json")
	if err := os.WriteFile(forged, b, 0o600); err != nil {
		return err
	}
	out, code := d.cli(ctx, "", "verify", forged)
	if code != exitNo {
		return fmt.Errorf("a changed bundle gave exit %d: %s", code, out)
	}
	d.tell("One byte changed, 1511.00 to 9511.00, and it is refused:")
	for _, l := range strings.Split(strings.TrimRight(out, "\n"), "\n") {
		if strings.Contains(l, "NOT VERIFIED") || strings.HasPrefix(l, "First break") || strings.Contains(l, "bad-digest") {
			d.more("%s", l)
		}
	}
	return nil
}

func logLevel(verbose bool) string {
	if verbose {
		return "info"
	}
	return "warn"
}

// runAsSelf tells a test binary to be the program.
const runAsSelf = "SEALBRIDGE_RUN"
