package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"sealbridge/manifest"
	"sealbridge/spec"
)

// Exit codes: a contract (surface: Habits).
const (
	exitDone        = 0 // done, verified
	exitNo          = 1 // the answer is no
	exitUsage       = 2 // wrong usage or malformed input
	exitUnreachable = 3 // a needed service is not there
	exitConflict    = 4 // already decided, key exists
	exitNotYet      = 5 // somebody else acts next
	exitExpired     = 6 // gate show --exit-code: nobody answered in time
	exitWithdrawn   = 7 // gate show --exit-code: the question was taken away
)

// exitOf says how a word ends a command; what has no row is a no.
var exitOf = map[spec.Reason]int{
	spec.Malformed: exitUsage, spec.TooLarge: exitUsage, spec.NotCanonical: exitUsage, spec.UnknownType: exitUsage,
	spec.Unavailable: exitUnreachable,
	spec.Conflict:    exitConflict, spec.GateExpired: exitConflict, spec.Replayed: exitConflict,
	spec.GateOpen: exitNotYet,
}

// app is what every command is given.
type app struct {
	in       io.Reader
	out, err io.Writer
	lines    *bufio.Reader // of in: prompts share it
	json     bool          // --json: one JSON value on stdout, errors as JSON on stderr
	home     string        // --home
	now      func() time.Time
	started  bool // a command's own code runs; an error before that is wrong usage
}

func newApp(in io.Reader, out, errs io.Writer) *app {
	return &app{in: in, out: out, err: errs, lines: bufio.NewReader(in), now: time.Now}
}

// register adds a command; each stands in its own file.
var registered []func(*app) *cobra.Command

func register(f func(*app) *cobra.Command) bool {
	registered = append(registered, f)
	return true
}

// groups in the order of the help screen.
var groups = []*cobra.Group{
	{ID: "start", Title: "Start"}, {ID: "people", Title: "People"}, {ID: "work", Title: "Work"}, {ID: "gates", Title: "Gates"},
	{ID: "agents", Title: "Agents"}, {ID: "check", Title: "Check"}, {ID: "relay", Title: "Relay"}, {ID: "hand", Title: "By hand"},
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use: "sealbridge", Short: "Let a friend's agent do a task for yours. Neither of you has to trust the other's machine.",
		SilenceErrors: true, SilenceUsage: true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
		Args:              cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			a.print("%s", firstScreen(c))
			return nil
		},
	}
	root.PersistentFlags().StringVar(&a.home, "home", defaultHome(), "folder of one owner's gateway (or SEALBRIDGE_HOME)")
	root.PersistentFlags().BoolVar(&a.json, "json", false, "one JSON value on stdout, errors as JSON on stderr")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage(err.Error()) })
	root.AddGroup(groups...)
	for _, f := range registered {
		c := f(a)
		if c.Args == nil && c.RunE != nil {
			c.Args = cobra.NoArgs
		}
		a.wrap(c)
		root.AddCommand(c)
	}
	root.SetHelpCommandGroupID("hand")
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	help := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, args []string) {
		if c == root {
			a.print("%s", firstScreen(root))
			return
		}
		help(c, args)
	})
	return root
}

// wrap marks where a command's own code begins, so that what cobra refuses
// before is wrong usage. A command that only has children asks for one of them.
func (a *app) wrap(c *cobra.Command) {
	for _, sub := range c.Commands() {
		a.wrap(sub)
	}
	own := c.RunE
	switch {
	case own != nil:
		c.RunE = func(c *cobra.Command, args []string) error {
			a.started = true
			home, err := filepath.Abs(a.home) // whoever is handed it may work elsewhere
			if err != nil {
				return err
			}
			a.home = home
			return own(c, args)
		}
	case c.Run == nil && c.HasSubCommands():
		c.Args = cobra.ArbitraryArgs
		c.RunE = func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return hint(usage("no command "+args[0]), "%s --help lists them", c.CommandPath())
			}
			return c.Help()
		}
	}
}

// firstScreen is eight lines: a group each, its commands behind it.
func firstScreen(root *cobra.Command) string {
	var b strings.Builder
	b.WriteString(root.Short + "\n\n")
	for _, g := range groups {
		var names []string
		for _, c := range root.Commands() {
			if c.GroupID == g.ID && !c.Hidden && c.Name() != "help" {
				names = append(names, c.Name())
			}
		}
		if len(names) > 0 {
			fmt.Fprintf(&b, "  %-8s %s\n", g.Title, strings.Join(names, "  "))
		}
	}
	b.WriteString("\nsealbridge COMMAND --help says more; `sealbridge demo` shows the whole story on this computer.\n")
	return b.String()
}

func defaultHome() string {
	if h := os.Getenv("SEALBRIDGE_HOME"); h != "" {
		return h
	}
	dir, err := os.UserConfigDir()
	if err != nil {
		return "sealbridge-home"
	}
	return filepath.Join(dir, "sealbridge")
}

func (a *app) print(format string, args ...any) { fmt.Fprintf(a.out, format, args...) }

// note says something beside the answer: on stderr, and never in --json.
func (a *app) note(format string, args ...any) {
	if !a.json {
		fmt.Fprintf(a.err, format+"\n", args...)
	}
}

func (a *app) emit(v any) error {
	e := json.NewEncoder(a.out)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// problem is an error with what can be done about it.
type problem struct {
	err  error
	hint string
	exit int // 0: by the word of err
}

func (p *problem) Error() string { return p.err.Error() }
func (p *problem) Unwrap() error { return p.err }

func hint(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return &problem{err: err, hint: fmt.Sprintf(format, args...)}
}

func usage(text string) error {
	return &problem{err: spec.Refuse(spec.Malformed, "", text), exit: exitUsage}
}

// no ends a command whose answer is no and was printed already.
var errNo = &problem{err: errors.New(""), exit: exitNo}

func ended(code int) error { return &problem{err: errors.New(""), exit: code} }

// report renders an error once, and says how the process ends.
func (a *app) report(err error) int {
	var p *problem
	h, code := "", 0
	if errors.As(err, &p) {
		h, code = p.hint, p.exit
		if p.err.Error() == "" {
			return code
		}
	}
	var e *spec.Error
	reason, path, text := spec.Internal, "", err.Error()
	if errors.As(err, &e) {
		reason, path, text = e.Reason, e.Path, e.Limit
		if e.Err != nil {
			text = strings.TrimPrefix(text+": "+e.Err.Error(), ": ")
		}
	} else if errors.Is(err, context.DeadlineExceeded) {
		reason, text = spec.Unavailable, "no answer in time"
	} else if errors.Is(err, fs.ErrNotExist) {
		reason = spec.NotFound
	} else if !a.started {
		reason, text = spec.Malformed, firstLine(text)
	}
	if code == 0 {
		if code = exitOf[reason]; code == 0 {
			code = exitNo
		}
	}
	if h == "" {
		h = hintFor(reason, text)
	}
	if a.json {
		json.NewEncoder(a.err).Encode(map[string]any{"error": map[string]string{"code": string(reason), "path": path, "message": text, "hint": h}}) //nolint:errcheck // stderr
		return code
	}
	line := strings.Join(strings.Fields(path+" "+text), " ")
	if line = manifest.Display(line, 2000); line == "" {
		line = string(reason)
	}
	fmt.Fprintf(a.err, "sealbridge: error: %s: %s\n", reason, line)
	if h != "" {
		fmt.Fprintf(a.err, "sealbridge: hint: %s\n", h)
	}
	return code
}

func hintFor(r spec.Reason, text string) string {
	switch {
	case r == spec.Unavailable && strings.Contains(text, "no gateway runs"):
		return "start it with `sealbridge serve`"
	case r == spec.NotFound && strings.Contains(text, "has no identity"):
		return "make one with `sealbridge init --name NAME --relay ADDRESS`"
	case r == spec.NotCanonical:
		return "`sealbridge canonicalize FILE` writes the canonical bytes"
	}
	return ""
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// paint colours text on a terminal: code is an SGR parameter such as 1 or 31.
func (a *app) paint(code, text string) string {
	f, ok := a.out.(*os.File)
	if !ok || a.json || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" || !term.IsTerminal(int(f.Fd())) {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// terminal says whether a person can be asked.
func (a *app) terminal() bool {
	f, ok := a.in.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// toTerminal says whether a person reads what is printed.
func (a *app) toTerminal() bool {
	f, ok := a.out.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

func (a *app) width() int {
	if f, ok := a.out.(*os.File); ok {
		if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 20 {
			return min(w, 100)
		}
	}
	return 80
}

// passphrase asks without an echo; without a terminal there is nobody to ask.
func (a *app) passphrase(prompt string) (string, error) {
	f, ok := a.in.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return "", spec.Refuse(spec.NotPermitted, "", "a passphrase is needed, and there is no terminal to ask for it")
	}
	fmt.Fprint(a.err, prompt)
	b, err := term.ReadPassword(int(f.Fd()))
	fmt.Fprintln(a.err)
	return string(b), err
}

// choose asks for one of the letters; Enter alone is no answer.
func (a *app) choose(prompt, letters string) (byte, error) {
	if !a.terminal() {
		return 0, spec.Refuse(spec.NotPermitted, "", "a person has to answer, and there is no terminal")
	}
	for {
		fmt.Fprint(a.err, prompt)
		line, err := a.lines.ReadString('\n')
		if err != nil {
			return 0, err
		}
		line = strings.ToLower(strings.TrimSpace(line))
		if len(line) == 1 && strings.Contains(letters, line) {
			return line[0], nil
		}
	}
}

// working says what takes long, after a second and on a terminal only.
func (a *app) working(what string) (done func()) {
	f, ok := a.err.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) || a.json {
		return func() {}
	}
	var mu sync.Mutex
	shown, over := false, false
	t := time.AfterFunc(time.Second, func() {
		mu.Lock()
		defer mu.Unlock()
		if !over {
			shown = true
			fmt.Fprintf(a.err, "%s …", what)
		}
	})
	return func() {
		t.Stop()
		mu.Lock()
		defer mu.Unlock()
		if over = true; shown {
			fmt.Fprint(a.err, "\r\x1b[K")
		}
	}
}

// short is how people type an id: its last four characters.
func short(id string) string {
	if len(id) < 4 {
		return id
	}
	return id[len(id)-4:]
}

func readFile(a *app, path string, limit int64) ([]byte, error) {
	r := a.in
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, &problem{err: &spec.Error{Reason: spec.NotFound, Path: path, Err: errors.Unwrap(err)}, exit: exitUsage}
		}
		defer f.Close()
		r = f
	}
	b, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = spec.Refuse(spec.TooLarge, path, fmt.Sprintf("%d bytes", limit))
	}
	return b, err
}
