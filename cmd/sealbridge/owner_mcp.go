package main

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"sealbridge/gateway"
	"sealbridge/gateway/home"
	"sealbridge/gateway/local"
	"sealbridge/gateway/mcptools"
	"sealbridge/spec"
)

var _ = register(mcpCommand)

// tokenEnv is where a client's configuration puts its agent's token.
const tokenEnv = "SEALBRIDGE_AGENT_TOKEN"

func mcpCommand(a *app) *cobra.Command {
	var tools, agent string
	c := &cobra.Command{
		Use: "mcp", GroupID: "agents", Short: "speak MCP on stdin and stdout, for the agent whose token is in " + tokenEnv,
		Long: "An MCP client starts this. It copies bytes to the running gateway's agents' socket and back; nothing else is written to stdout.\n" +
			"`sealbridge agent add NAME --client claude-code` makes the token and prints what the client needs.",
		Example: "  " + tokenEnv + "=sba_… sealbridge mcp --tools requester --agent claude",
		RunE: func(c *cobra.Command, _ []string) error {
			set, err := mcptools.ParseTools(tools)
			if err != nil {
				return usage("--tools requester, worker or all")
			}
			token := os.Getenv(tokenEnv)
			if token == "" {
				return hint(usage(tokenEnv+" is not set"), "`sealbridge agent add NAME --client claude-code` makes a token and prints where it goes")
			}
			h, err := home.Read(a.home)
			if err != nil {
				return err
			}
			err = mcptools.Pipe{Socket: h.AgentsSocket(), Token: token, Tools: set, Agent: agent, In: a.in, Out: a.out}.Run(c.Context())
			if spec.ReasonOf(err) == spec.NotPermitted {
				return hint(err, "`sealbridge agent list` shows the agents; `sealbridge agent remove NAME` and `agent add` make a new token")
			}
			return err
		},
	}
	c.Flags().StringVar(&tools, "tools", "", "requester, worker or all, within what the agent has; without it all that it has")
	c.Flags().StringVar(&agent, "agent", "", "the agent's name; held against the token")
	return c
}

// agentsDoor opens the agents' socket and, where it is configured, HTTP on loopback.
func (a *app) agentsDoor(ctx context.Context, wg *sync.WaitGroup, h *home.Home, g *gateway.Gateway, models *modelDoor, log *slog.Logger) error {
	door := mcptools.New(mcptools.Config{Gateway: g, Version: thisVersion(), Log: log, Identify: func(token string) (mcptools.Agent, bool) {
		name, ag, ok := home.AgentOf(h.Dir, token)
		tools := mcptools.Tools(ag.Tools)
		if tools == "" {
			tools = mcptools.Requester
		}
		return mcptools.Agent{Name: name, Tools: tools}, ok
	}})
	l, err := local.Listen(h.AgentsSocket())
	if err != nil {
		return err
	}
	wg.Go(func() {
		if err := door.Serve(ctx, l); err != nil {
			log.Error("the agents' socket stopped", "error", err)
		}
	})
	port := h.Config.MCP.Port
	if port == 0 {
		return nil
	}
	tcp, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		a.note("sealbridge: warning: port %d is taken, so agents come by the socket only; `mcp: {port: %d}` in config.yaml moves it", port, port+1)
		return nil
	}
	s := &http.Server{Handler: agentsWeb(door.Handler(), models.door.Sessions()), ReadHeaderTimeout: 5 * time.Second, BaseContext: func(net.Listener) context.Context { return ctx }}
	stopped := context.AfterFunc(ctx, func() { s.Close() })
	wg.Go(func() {
		defer stopped()
		if err := s.Serve(tcp); err != nil && ctx.Err() == nil {
			log.Error("MCP over HTTP stopped", "error", err)
		}
	})
	return nil
}

// sessionAgents are the agents that come by the agents' door, in no box of ours.
func sessionAgents(all map[string]home.Agent) (names []string) {
	for n, a := range all {
		if a.Kind == home.KindMCP {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	return names
}
