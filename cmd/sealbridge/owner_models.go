package main

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"

	"sealbridge/gateway"
	"sealbridge/gateway/home"
	"sealbridge/gateway/llmdoor"
	"sealbridge/gateway/mcptools"
	"sealbridge/gateway/runner"
)

// modelPort is where the LLM door listens in an agent's box; each box has a loopback of its own.
const modelPort = 7812

// modelDoor joins the LLM door, the boxes and the home that has the keys.
type modelDoor struct {
	dir    string
	models atomic.Pointer[map[string]home.Model] // as the rules in force name them
	door   *llmdoor.Door
}

func newModelDoor(h *home.Home) *modelDoor {
	m := &modelDoor{dir: h.Dir}
	m.use(h)
	return m
}

func (m *modelDoor) use(h *home.Home) { m.models.Store(&h.Config.Models) }

// open puts the door before a gateway.
func (m *modelDoor) open(g *gateway.Gateway, log *slog.Logger) {
	m.door = llmdoor.New(llmdoor.Config{Gateway: g, Log: log, Upstream: m.upstream, Identify: func(token string) (string, bool) {
		name, ag, ok := home.AgentOf(m.dir, token)
		return name, ok && ag.Model == "door"
	}})
}

func (m *modelDoor) upstream(provider string) (llmdoor.Upstream, bool) {
	model, ok := (*m.models.Load())[provider]
	return llmdoor.Upstream{URL: model.Address(), Key: func() (string, error) { return model.Key(m.dir) }}, ok
}

// Port is the door as one run sees it.
func (m *modelDoor) Port(run gateway.ModelRun) (runner.Port, map[string]string) {
	token := llmdoor.NewToken()
	serve := func(ctx context.Context, b *runner.Box, conn net.Conn) {
		llmdoor.ServeConn(ctx, conn, m.door.Run(llmdoor.Guest{Run: run, Hold: b.Hold}, token))
	}
	return runner.Port{Number: modelPort, Serve: serve}, llmdoor.Environment("http://127.0.0.1:"+strconv.Itoa(modelPort), token)
}

// agentsWeb is what agents find on the one port that is theirs (A10, X4b).
func agentsWeb(tools, models http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == mcptools.Path {
			tools.ServeHTTP(w, r)
			return
		}
		models.ServeHTTP(w, r)
	})
}
