package main

import (
	"context"
	"log/slog"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"sealbridge/gateway"
	"sealbridge/gateway/console"
	"sealbridge/gateway/home"
	"sealbridge/gateway/local"
	"sealbridge/spec"
)

var _ = register(consoleCommand)

func consoleCommand(a *app) *cobra.Command {
	var only, also bool
	c := &cobra.Command{
		Use: "console", GroupID: "start", Short: "open the owner's page in a browser, by a link that works once", Example: "  sealbridge console\n  sealbridge console --print",
		RunE: func(c *cobra.Command, _ []string) error {
			h, cl, err := a.client()
			if err != nil {
				return err
			}
			if also && h.Config.Console.AlsoAt == "" {
				return usage("config.yaml names no console: {also_at: https://…}")
			}
			link, err := local.Login.Call(c.Context(), cl, gateway.None{})
			if err != nil && strings.Contains(err.Error(), "without its console") {
				return hint(err, "`sealbridge serve` says at its start why the console does not run")
			}
			if err != nil {
				return err
			}
			if also {
				u, err := url.Parse(link.URL)
				if err != nil {
					return err
				}
				link.URL = h.Config.Console.AlsoAt + u.Path
			}
			if a.json {
				return a.emit(link)
			}
			a.print("%s\n", link.URL)
			if !only && !also && browse(c.Context(), link.URL) == nil {
				a.note("opened in your browser")
				return nil
			}
			a.note("open it within two minutes: it works once, shows, and decides nothing")
			return nil
		},
	}
	c.Flags().BoolVar(&also, "also", false, "print the link for console.also_at, behind your own proxy")
	c.Flags().BoolVar(&only, "print", false, "print the link and open nothing")
	return c
}

// browse hands an address to whatever opens addresses here.
func browse(ctx context.Context, url string) error {
	switch runtime.GOOS {
	case "darwin":
		return exec.CommandContext(ctx, "open", url).Run()
	case "windows":
		return exec.CommandContext(ctx, "rundll32", "url.dll,FileProtocolHandler", url).Run()
	}
	if os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" {
		return spec.Refuse(spec.Unavailable, "", "no display")
	}
	return exec.CommandContext(ctx, "xdg-open", url).Run()
}

// Values of serve --console beside a port.
const (
	consoleAsConfigured = -1
	consoleOff          = -2
)

// consolePort reads serve --console.
func consolePort(text string) (int, error) {
	switch text {
	case "":
		return consoleAsConfigured, nil
	case "off":
		return consoleOff, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > 65535 {
		return 0, usage("--console PORT or off")
	}
	return n, nil
}

// console starts the owner's page and says where it is. Where its port cannot
// be had the gateway says so and works on without it.
func (a *app) console(ctx context.Context, wg *sync.WaitGroup, h *home.Home, g *gateway.Gateway, log *slog.Logger, port int) (origin string) {
	if port == consoleAsConfigured {
		port = console.Port
		if c := h.Config.Console; c.Off {
			port = consoleOff
		} else if c.Port != nil {
			port = *c.Port
		}
	}
	if port == consoleOff {
		return ""
	}
	ls, at, err := console.Listen(port)
	if err != nil {
		a.note("sealbridge: warning: port %d is taken, so this gateway runs without its console; `console: {port: %d}` in config.yaml moves it", port, port+1)
		return ""
	}
	s := console.New(console.Config{Gateway: g, Port: at, AlsoAt: h.Config.Console.AlsoAt, Now: a.now, Log: log,
		PolicyFile: func() (string, string, error) {
			text, err := os.ReadFile(filepath.Join(h.Dir, "policy.yaml"))
			if err != nil {
				return "", "", err
			}
			p, err := h.Policy() // reads the file again
			return string(text), p.Digest().String(), err
		},
		Health: func(ctx context.Context) []console.Finding { return a.health(ctx, h) }})
	g.ConsoleAt(s.Origin())
	wg.Go(func() {
		if err := s.Serve(ctx, ls); err != nil {
			g.ConsoleAt("")
			log.Error("the console stopped", "error", err)
		}
	})
	return s.Origin()
}

// health is what doctor says, for the page.
func (a *app) health(ctx context.Context, h *home.Home) (out []console.Finding) {
	for _, f := range a.examine(ctx, h) {
		out = append(out, console.Finding{What: f.What, Text: f.Text, OK: f.OK})
	}
	return out
}
