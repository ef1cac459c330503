package main

import (
	"context"
	"log/slog"
	"net"
	"strconv"

	"sealbridge/gateway"
	"sealbridge/gateway/home"
	"sealbridge/gateway/llmdoor"
	"sealbridge/gateway/mcptools"
	"sealbridge/gateway/runner"
	"sealbridge/gateway/tools"
)

// toolsOf are the owner's tool servers as config.yaml names them.
func toolsOf(h *home.Home) (out []tools.Server, err error) {
	for _, name := range h.ToolNames() {
		s, err := h.AtHome(h.Config.Tools[name])
		if err != nil {
			return nil, err
		}
		secrets, err := s.ReadSecrets()
		if err != nil {
			return nil, err
		}
		wait, err := s.Wait()
		if err != nil {
			return nil, err
		}
		out = append(out, tools.Server{Name: name, Command: s.Command, URL: s.URL, Files: s.Files, Secrets: secrets, Timeout: wait})
	}
	return out, nil
}

// useTools takes the servers of a config.yaml that was read again.
func useTools(h *home.Home, lent *tools.Tools) error {
	servers, err := toolsOf(h)
	if err != nil {
		return err
	}
	return lent.Use(servers)
}

// toolPort is where a boxed program finds the tools that were granted for its
// task: on a loopback that is its own, so that no other program is in its way.
const toolPort = 7813

// toolDoor brings granted tools into boxes (A13).
type toolDoor struct{ door *mcptools.Door }

func (d *toolDoor) open(g *gateway.Gateway, log *slog.Logger) {
	d.door = mcptools.New(mcptools.Config{Gateway: g, Version: thisVersion(), Identify: func(string) (mcptools.Agent, bool) { return mcptools.Agent{}, false }, Log: log})
}

// Port is the door as one run sees it.
func (d *toolDoor) Port(run gateway.ToolRun) (runner.Port, map[string]string) {
	token := llmdoor.NewToken()
	box := d.door.Box(run, token)
	serve := func(ctx context.Context, _ *runner.Box, conn net.Conn) { llmdoor.ServeConn(ctx, conn, box) }
	return runner.Port{Number: toolPort, Serve: serve}, map[string]string{"SEALBRIDGE_MCP_URL": "http://127.0.0.1:" + strconv.Itoa(toolPort) + mcptools.Path,
		"SEALBRIDGE_MCP_TOKEN": token, "SEALBRIDGE_TASK": run.Task}
}
