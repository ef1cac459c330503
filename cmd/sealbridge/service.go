package main

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"sealbridge/spec"
)

var _ = register(serviceCommand)

// service is one file of a service manager, and how that manager is told of it.
type service struct {
	Name   string     `json:"name"`
	File   string     `json:"file"`
	Text   string     `json:"text,omitempty"`
	start  [][]string // commands after the file is written
	stop   [][]string // commands before the file is removed
	active []string   // exit 0: it runs
	root   bool       // the file belongs to the system
}

// writtenBy marks what we may overwrite and remove.
const writtenBy = "Written by `sealbridge service install`."

func serviceCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "service", GroupID: "start", Short: "let the system run the gateway, or a relay",
		Long: "The gateway becomes a service of your user (systemd or launchd), without root. A relay becomes a\n" +
			"service of the system under a user of its own (systemd), which needs root, or --print.",
	}
	var f relayFlags
	var show bool
	install := &cobra.Command{
		Use: "install [relay]", Short: "write the service file and start it; --print only shows it",
		Example: "  sealbridge service install\n  sealbridge service install relay --config /var/lib/sealbridge/relay.yaml --print",
		Args:    cobra.MatchAll(cobra.MaximumNArgs(1), cobra.OnlyValidArgs), ValidArgs: []string{"relay"},
		RunE: func(c *cobra.Command, args []string) error {
			s, err := a.serviceOf(args, f)
			if err != nil {
				return err
			}
			if show {
				a.print("%s", s.Text)
				return nil
			}
			return a.installService(c.Context(), s)
		},
	}
	install.Flags().BoolVar(&show, "print", false, "write nothing, show the file")
	install.Flags().StringVar(&f.config, "config", "", "relay.yaml of the relay")
	c.AddCommand(install,
		&cobra.Command{Use: "status [relay]", Short: "say whether the service is there and runs", Example: "  sealbridge service status", Args: install.Args, ValidArgs: install.ValidArgs,
			RunE: func(c *cobra.Command, args []string) error { return a.serviceStatus(c.Context(), args) }},
		&cobra.Command{Use: "remove [relay]", Short: "stop the service and remove its file; nothing else", Example: "  sealbridge service remove", Args: install.Args, ValidArgs: install.ValidArgs,
			RunE: func(c *cobra.Command, args []string) error { return a.removeService(c.Context(), args) }})
	return c
}

// serviceOf is the service with its text, for this program.
func (a *app) serviceOf(args []string, f relayFlags) (service, error) {
	s, err := a.placeOf(args)
	if err != nil {
		return s, err
	}
	self, err := lastingProgram()
	if err != nil {
		return s, err
	}
	if len(args) > 0 {
		s.Text, err = a.relayUnit(self, f)
		return s, err
	}
	home, err := filepath.Abs(a.home)
	if err != nil {
		return s, err
	}
	if runtime.GOOS == "darwin" {
		s.Text = launchAgent(s.Name, self, home)
	} else {
		s.Text = gatewayUnit(self, home)
	}
	return s, nil
}

// placeOf is the service without its text.
func (a *app) placeOf(args []string) (s service, err error) {
	relay := len(args) > 0
	switch {
	case relay && runtime.GOOS == "linux":
		s = systemd("sealbridge-relay.service", "/etc/systemd/system")
		s.root = true
	case runtime.GOOS == "linux":
		dir, err := os.UserConfigDir()
		if err != nil {
			return s, err
		}
		s = systemd("sealbridge"+a.suffix()+".service", filepath.Join(dir, "systemd", "user"), "--user")
	case runtime.GOOS == "darwin" && !relay:
		dir, err := os.UserHomeDir()
		if err != nil {
			return s, err
		}
		s = launchd("sealbridge.gateway"+a.suffix(), filepath.Join(dir, "Library", "LaunchAgents"))
	default:
		what := "gateway"
		if relay {
			what = "relay"
		}
		return s, spec.Refuse(spec.NotPermitted, "", "no service manager that we know for a "+what+" on "+runtime.GOOS+": let yours start `sealbridge serve` or `sealbridge relay`")
	}
	return s, nil
}

func systemd(name, dir string, flags ...string) service {
	ctl := func(words ...string) []string { return append(append([]string{"systemctl"}, flags...), words...) }
	return service{Name: name, File: filepath.Join(dir, name),
		start:  [][]string{ctl("daemon-reload"), ctl("enable", "--now", name)},
		stop:   [][]string{ctl("disable", "--now", name)},
		active: ctl("is-active", "--quiet", name)}
}

func launchd(name, dir string) service {
	domain := "gui/" + strconv.Itoa(os.Getuid())
	file := filepath.Join(dir, name+".plist")
	return service{Name: name, File: file,
		start:  [][]string{{"launchctl", "bootstrap", domain, file}},
		stop:   [][]string{{"launchctl", "bootout", domain + "/" + name}},
		active: []string{"launchctl", "print", domain + "/" + name}}
}

var notForNames = regexp.MustCompile(`[^A-Za-z0-9_-]+`)

// suffix tells the homes of one user apart.
func (a *app) suffix() string {
	abs, err := filepath.Abs(a.home)
	if dir, derr := os.UserConfigDir(); err != nil || derr == nil && abs == filepath.Join(dir, "sealbridge") {
		return ""
	}
	return "-" + notForNames.ReplaceAllString(filepath.Base(abs), "-")
}

// lastingProgram is this program, if it will be there tomorrow.
func lastingProgram() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	if strings.Contains(filepath.ToSlash(self), "/go-build") {
		return "", hint(spec.Refuse(spec.NotPermitted, "", "this program is a temporary file of `go run`"), "build it once: go build -o ~/bin/sealbridge ./cmd/sealbridge")
	}
	return self, nil
}

func (a *app) installService(ctx context.Context, s service) error {
	switch old, err := os.ReadFile(s.File); {
	case err == nil && !strings.Contains(string(old), writtenBy):
		return hint(spec.Refuse(spec.Conflict, s.File, "is there and not ours"), "`sealbridge service install --print` shows what we would write")
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return unopened(s.File, err)
	}
	err := os.MkdirAll(filepath.Dir(s.File), 0o755)
	if err == nil {
		err = os.WriteFile(s.File, []byte(s.Text), 0o644)
	}
	if errors.Is(err, fs.ErrPermission) {
		return hint(spec.Refuse(spec.NotPermitted, s.File, "needs root"), "sealbridge service install relay --config … --print | sudo tee %s", s.File)
	} else if err != nil {
		return unopened(s.File, err)
	}
	told := tell(ctx, s.start)
	if a.json {
		if err := a.emit(map[string]any{"name": s.Name, "file": s.File, "started": told == nil}); err != nil {
			return err
		}
	} else {
		a.print("%s\n", s.File)
	}
	if told != nil {
		var lines []string
		for _, c := range s.start {
			lines = append(lines, strings.Join(c, " "))
		}
		return hint(&spec.Error{Reason: spec.Unavailable, Limit: "the file is written, the service manager did not take it", Err: told}, "%s", strings.Join(lines, " && "))
	}
	if !a.json {
		a.print("it runs, and again after a restart of the system")
		if !s.root && runtime.GOOS == "linux" {
			a.print("; also while you are not logged in after: loginctl enable-linger")
		}
		a.print("\n")
	}
	return nil
}

// tell runs commands until one fails.
func tell(ctx context.Context, commands [][]string) error {
	for _, c := range commands {
		var out bytes.Buffer
		cmd := exec.CommandContext(ctx, c[0], c[1:]...)
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Run(); err != nil {
			if text := strings.TrimSpace(out.String()); text != "" {
				return errors.New(firstLine(text))
			}
			return err
		}
	}
	return nil
}

func (a *app) serviceStatus(ctx context.Context, args []string) error {
	s, err := a.placeOf(args)
	if err != nil {
		return err
	}
	_, err = os.Stat(s.File)
	there := err == nil
	runs := there && tell(ctx, [][]string{s.active}) == nil
	if a.json {
		if err := a.emit(map[string]any{"name": s.Name, "file": s.File, "installed": there, "running": runs}); err != nil {
			return err
		}
	} else {
		a.print("%s   %s\n", s.Name, map[bool]string{true: "runs", false: map[bool]string{true: "installed, does not run", false: "not installed"}[there]}[runs])
	}
	if !runs {
		return errNo
	}
	return nil
}

func (a *app) removeService(ctx context.Context, args []string) error {
	s, err := a.placeOf(args)
	if err != nil {
		return err
	}
	old, err := os.ReadFile(s.File)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return spec.Refuse(spec.NotFound, s.File, "no service")
	case err != nil:
		return unopened(s.File, err)
	case !strings.Contains(string(old), writtenBy):
		return spec.Refuse(spec.Conflict, s.File, "not ours")
	}
	if err := tell(ctx, s.stop); err != nil {
		a.note("sealbridge: warning: stopping it: %v", err)
	}
	if err := os.Remove(s.File); err != nil {
		return unopened(s.File, err)
	}
	if a.json {
		return a.emit(map[string]string{"removed": s.File})
	}
	a.print("removed %s; keys, tasks and mail are where they were\n", s.File)
	return nil
}
