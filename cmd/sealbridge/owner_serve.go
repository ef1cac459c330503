package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"sealbridge/gateway"
	"sealbridge/gateway/artifact"
	"sealbridge/gateway/home"
	"sealbridge/gateway/journal"
	"sealbridge/gateway/local"
	"sealbridge/gateway/notify"
	"sealbridge/gateway/runner"
	"sealbridge/gateway/tools"
	"sealbridge/relay"
	"sealbridge/relay/client"
	"sealbridge/spec"
)

var _ = register(serveCommand)

func serveCommand(a *app) *cobra.Command {
	var level, port string
	c := &cobra.Command{
		Use: "serve", GroupID: "start", Short: "run the gateway of this home until it is interrupted", Example: "  sealbridge serve",
		RunE: func(c *cobra.Command, _ []string) error {
			var l slog.Level
			if err := l.UnmarshalText([]byte(level)); err != nil {
				return usage("--log-level debug, info, warn or error")
			}
			at, err := consolePort(port)
			if err != nil {
				return err
			}
			return a.serve(c.Context(), slog.New(slog.NewJSONHandler(a.err, &slog.HandlerOptions{Level: l})), at)
		},
	}
	c.Flags().StringVar(&level, "log-level", "warn", "debug, info, warn or error")
	c.Flags().StringVar(&port, "console", "", "port of the console on loopback, 0 for any free one, or off (config.yaml console; 7811)")
	return c
}

// serve is the gateway process: every hand is opened here and closed in reverse.
func (a *app) serve(ctx context.Context, log *slog.Logger, port int) error {
	h, err := home.Open(a.home)
	if err != nil {
		return err
	}
	defer h.Close()
	rules, err := rulesOf(h)
	if err != nil {
		return err
	}
	j, err := journal.Open(h.Journal())
	if err != nil {
		return journalError(err)
	}
	defer j.Close()
	files, err := artifact.Open(h.Files())
	if err != nil {
		return err
	}
	defer files.Close()
	run, err := runner.New(ctx, runner.Config{Dir: h.Work()})
	if err != nil {
		return err
	}
	a.findEngine(ctx, run, slices.Collect(maps.Values(h.Config.Agents))...)
	c := h.Certified()
	log = log.With("owner", c.DisplayName)
	tell, err := tellerOf(h)
	if err != nil {
		return err
	}
	conn, err := a.dial(ctx, h, log)
	if err != nil {
		return err
	}
	defer conn.Close()
	away, err := newRelays(h, log)
	if err != nil {
		return err
	}
	defer away.Close()
	models := newModelDoor(h)
	servers, err := toolsOf(h)
	if err != nil {
		return err
	}
	lent, err := tools.New(servers, log)
	if err != nil {
		return err
	}
	defer lent.Close()
	boxes := &toolDoor{}
	g, err := gateway.New(ctx, gateway.Config{Models: models, Tools: lent, ToolDoor: boxes, Journal: j, Owner: h.Owner, Agent: h.Agent, Certificate: h.Certificate, Secrets: h, Approvers: h, Courier: conn, Depot: conn, Reach: away.reach,
		Files: files, Runner: run, Notifier: tell, Rules: rules, Line: h.PolicyLine, Now: time.Now, Zone: time.Local, Chance: rand.Reader, Log: log})
	if err != nil {
		return err
	}
	models.open(g, log)
	boxes.open(g, log)
	if h.Restored() {
		if err := g.Recover(ctx, "this home was put back from a backup"); err != nil {
			return err
		}
		if err := h.ClearRestored(); err != nil {
			return err
		}
	}
	return a.serving(ctx, h, g, run, models, lent, tell, log, port)
}

func (a *app) serving(ctx context.Context, h *home.Home, g *gateway.Gateway, run *runner.Exec, models *modelDoor, lent *tools.Tools, tell *notify.Teller, log *slog.Logger, port int) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	l, err := local.Listen(h.Socket()) // before anything says that the gateway runs
	if err != nil {
		return err
	}
	failed := make(chan error, 1)
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := local.Serve(ctx, l, local.Handler(g, thisVersion())); err != nil {
			failed <- err
			stop()
		}
	})
	wg.Go(func() { a.watchRules(ctx, h, g, run, models, lent, tell, log) })
	page := a.console(ctx, &wg, h, g, log, port)
	if err := a.agentsDoor(ctx, &wg, h, g, models, log); err != nil {
		stop()
		wg.Wait()
		return err
	}
	c := h.Certified()
	if a.json {
		if err := a.emit(identityOf(h)); err != nil {
			return err
		}
	} else {
		a.print("Sealbridge gateway of %s   relay %s   ^C stops it; the relay keeps mail for 14 days\n", c.DisplayName, c.Relay.Endpoint)
		if page != "" {
			a.print("  your page  %s   `sealbridge console` opens it\n", page)
		}
	}
	notifySystemd("READY=1")
	defer notifySystemd("STOPPING=1")
	if left := time.Until(c.ExpiresAt.Time()); left < 14*24*time.Hour {
		a.note("sealbridge: warning: the agent's certificate ends %s", c.ExpiresAt)
	}
	err = g.Run(ctx)
	stop()
	wg.Wait()
	select {
	case err := <-failed:
		return err
	default:
	}
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// dial reaches the home relay; until it answers the gateway waits and says so.
func (a *app) dial(ctx context.Context, h *home.Home, log *slog.Logger) (*client.Conn, error) {
	c := h.Certified()
	at := relay.Address{URL: c.Relay.Endpoint, DID: c.Relay.Did}
	done := a.working("connecting to " + at.URL)
	defer done()
	return client.Dial(ctx, client.Config{Address: at, Agent: h.Agent, JoinTicket: h.Config.JoinTicket, Log: log})
}

func rulesOf(h *home.Home) (gateway.Rules, error) {
	p, err := h.Policy()
	if err != nil {
		return gateway.Rules{}, err
	}
	r := gateway.Rules{Policy: p, Agents: map[string]gateway.Agent{}, Providers: providersOf(h)}
	for name, ag := range h.Config.Agents {
		if ag.Kind == home.KindMCP { // it comes by the agents' door, with a token
			if ag.Tools == "worker" || ag.Tools == "all" {
				r.Agents[name] = gateway.Agent{Session: true, Model: cmp.Or(ag.Model, "own"), Providers: ag.Providers}
			}
			continue
		}
		if r.Agents[name], err = agentOf(h.Dir, ag); err != nil {
			return r, spec.At("/agents/"+name, err)
		}
	}
	return r, nil
}

// providersOf are the owner's providers of models, without their keys.
func providersOf(h *home.Home) map[string]gateway.Provider {
	out := map[string]gateway.Provider{}
	for name, m := range h.Config.Models {
		out[name] = gateway.Provider{Kind: m.Kind, Host: m.Host(), Models: m.Models}
	}
	return out
}

// agentOf is a program of config.yaml as the gateway runs it, with its own login where it has one.
func agentOf(dir string, ag home.Agent) (out gateway.Agent, err error) {
	out = gateway.Agent{Command: ag.Command, Module: ag.Wasm, Image: ag.Image, ReadOnly: ag.ReadOnly, Model: ag.Model, Hosts: ag.Hosts, Providers: ag.Providers}
	if out.Speaks, err = gateway.ParseSpeaks(ag.Speaks); err != nil {
		return out, err
	}
	if out.Env, err = ag.Environment(dir); err != nil {
		return out, err
	}
	if ag.Image != "" {
		if err := runner.CheckImage(ag.Image); err != nil {
			return out, err
		}
	}
	for v := range out.Env {
		if err := runner.CheckEnv(v); err != nil {
			return out, err
		}
	}
	return out, nil
}

// watchRules reads policy and agents again when their files change. A file that
// does not read leaves the rules in force as they are.
func (a *app) watchRules(ctx context.Context, h *home.Home, g *gateway.Gateway, run *runner.Exec, models *modelDoor, lent *tools.Tools, tell *notify.Teller, log *slog.Logger) {
	stamp := func() string {
		var b strings.Builder
		for _, name := range []string{"config.yaml", "policy.yaml"} {
			if i, err := os.Stat(filepath.Join(h.Dir, name)); err == nil {
				b.WriteString(i.ModTime().String() + " " + strconv.FormatInt(i.Size(), 10) + ";")
			}
		}
		return b.String()
	}
	last := stamp()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if now := stamp(); now != last {
			last = now
			fresh, err := home.Read(h.Dir)
			if err == nil {
				var r gateway.Rules
				if r, err = rulesOf(fresh); err == nil {
					err = tell.Use(waysOf(fresh))
				}
				if err == nil {
					err = useTools(fresh, lent)
				}
				if err == nil {
					models.use(fresh)
					a.findEngine(ctx, run, slices.Collect(maps.Values(fresh.Config.Agents))...)
					err = g.Reload(r)
					log.Warn("rules read again", "policy", r.Policy.Digest().Short())
				}
			}
			if err != nil {
				log.Error("rules not taken; the old ones stay in force", "error", err)
			}
		}
	}
}

func journalError(err error) error {
	switch {
	case errors.Is(err, journal.ErrFull):
		return &spec.Error{Reason: spec.Unavailable, Limit: "the disk is full", Err: err}
	case errors.Is(err, journal.ErrLayout), errors.Is(err, journal.ErrCorrupt):
		return hint(&spec.Error{Reason: spec.Malformed, Path: "journal.db", Err: err}, "`sealbridge restore FILE` puts a backup back")
	}
	return err
}
