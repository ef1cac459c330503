package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"sealbridge/gateway"
	"sealbridge/gateway/llmdoor"
	"sealbridge/gateway/runner"
	"sealbridge/manifest"
	"sealbridge/policy/approval"
)

// init makes this test's own program an agent in a box: it calls a model as
// often as it is told and says what came of it.
func init() {
	if os.Getenv("SEALBRIDGE_TEST_CALLS") == "" {
		return
	}
	io.Copy(io.Discard, os.Stdin)
	var at, times int
	fmt.Sscanf(os.Getenv("SEALBRIDGE_TEST_CALLS"), "%d/%d", &at, &times) // at once, one after the other
	var mu sync.Mutex
	statuses := map[string]int{}
	var all sync.WaitGroup
	for range at {
		all.Go(func() {
			for range times {
				status := ask()
				mu.Lock()
				statuses[status]++
				mu.Unlock()
			}
		})
	}
	all.Wait()
	out, _ := json.Marshal(map[string]any{"output": map[string]any{"lines": at * times, "statuses": statuses}, "evidence": []any{map[string]string{"criterion": "ac_1", "text": "counted"}}})
	os.Stdout.Write(out)
	os.Exit(0)
}

// ask is one call of the agent.
func ask() string {
	q, err := http.NewRequest(http.MethodPost, os.Getenv("ANTHROPIC_BASE_URL")+"/v1/messages", strings.NewReader(`{"model":"m-1","max_tokens":100,"stream":true,"messages":[{"role":"user","content":"hi"}]}`))
	if err != nil {
		return err.Error()
	}
	q.Header.Set("X-Api-Key", os.Getenv("ANTHROPIC_API_KEY"))
	res, err := http.DefaultClient.Do(q)
	if err != nil {
		return err.Error()
	}
	defer res.Body.Close()
	io.Copy(io.Discard, res.Body)
	return res.Status
}

// boxModels is the LLM door as a box sees it.
type boxModels struct {
	at   string // of the provider
	llm  *llmdoor.Door
	keep func(gateway.ModelRun)
}

func (m *boxModels) door() gateway.ModelDoor {
	if m == nil {
		return nil
	}
	return m
}

func (m *boxModels) open(g *gateway.Gateway, log *slog.Logger) {
	if m != nil {
		m.llm = llmdoor.New(llmdoor.Config{Gateway: g, Log: log, Upstream: func(string) (llmdoor.Upstream, bool) { return llmdoor.Upstream{URL: m.at}, true }})
	}
}

func (m *boxModels) Port(run gateway.ModelRun) (runner.Port, map[string]string) {
	if m.keep != nil {
		m.keep(run)
	}
	token := llmdoor.NewToken()
	return runner.Port{Number: 7812, Serve: func(ctx context.Context, b *runner.Box, conn net.Conn) {
		llmdoor.ServeConn(ctx, conn, m.llm.Run(llmdoor.Guest{Run: run, Hold: b.Hold}, token))
	}}, llmdoor.Environment("http://127.0.0.1:7812", token)
}

// model is a provider of the messages API whose every answer uses 100 tokens in
// and as many out as it may, at most 10; meet sees each call before its answer.
func model(t *testing.T, meet func(r *http.Request)) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q struct {
			Max int64 `json:"max_tokens"`
		}
		json.NewDecoder(r.Body).Decode(&q)
		if meet != nil {
			meet(r)
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":60,\"cache_read_input_tokens\":40,\"output_tokens\":1}}}\n\n")
		fmt.Fprintf(w, "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":%d}}\n\ndata: {\"type\":\"message_stop\"}\n\n", min(q.Max, 10))
	}))
	t.Cleanup(s.Close)
	return s
}

// modelPair is a pair in which Ben's agent calls a model by the door.
func modelPair(t *testing.T, calls string, meet func(r *http.Request)) (ann, ben *side) {
	t.Helper()
	ann, ben = pair(t)
	s := model(t, meet)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ben.models = &boxModels{at: s.URL}
	ben.rules.Providers = map[string]gateway.Provider{"tests": {Kind: gateway.KindAnthropic, Host: strings.TrimPrefix(s.URL, "http://"), Models: []string{"m-*"}}}
	ben.rules.Agents["coder"] = gateway.Agent{Command: []string{self}, Model: "door", Env: map[string]string{"SEALBRIDGE_TEST_CALLS": calls}}
	ben.restart()
	return ann, ben
}

func budget(in, out int64, over string) func(*manifest.Draft) {
	return func(d *manifest.Draft) {
		d.Budget.InputTokens, d.Budget.OutputTokens, d.Budget.Over = fmt.Sprint(in), fmt.Sprint(out), over
	}
}

func TestCallsByTheDoorAreMetered(t *testing.T) { // X4, X5, X6, B6
	ann, ben := modelPair(t, "2/3", nil)
	p := ann.proposeWith(budget(20_000, 1000, "stop"))
	ann.allow(manifest.ContractGate)
	ask := ben.ask(manifest.ContractGate)
	reads := false
	for _, l := range ask.Ask.Lines {
		reads = reads || l.Word == "learn" && strings.Contains(l.Text, "tests (127.0.0.1:") && strings.Contains(l.Text, "reads")
	}
	if !reads || ask.Ask.Model != "door" {
		t.Errorf("the card does not say who reads the inputs: %+v", ask.Ask.Lines)
	}
	ben.allow(manifest.ContractGate)
	ann.allow(manifest.DeliveryGate)
	ann.until("completed", func() bool { return ann.state(p.Task).Released })
	ben.until("completed", func() bool { return ben.state(p.Task).Outcome == "completed" })
	for name, want := range map[string]int64{"input_tokens": 600, "output_tokens": 60, "tool_calls": 0} {
		if b := ben.state(p.Task).Budget[name]; b.Committed != want || b.Reserved != 0 {
			t.Errorf("%s: %+v, want %d charged", name, b, want)
		}
	}
	rep := ann.verifies(p.Task)
	if f := rep.Facts; f.Model != "door" || f.Used.InputTokens != 600 || f.Used.OutputTokens != 60 || f.Used.Source.InputTokens != "metered" {
		t.Errorf("%+v", f)
	}
	ben.verifies(p.Task)
}

func TestABudgetOfTokensEndsTheRun(t *testing.T) { // B2, B5, X4f
	for name, c := range map[string]struct {
		in, out int64
		meter   string
		used    int64
	}{
		"output": {100_000, 25, "output_tokens", 25}, // 10, 10, then as many as there are
		"input":  {3000, 1000, "input_tokens", 1900}, // a request needs a little over 1,100 while it is under way
	} {
		t.Run(name, func(t *testing.T) {
			ann, ben := modelPair(t, "1/100", nil)
			p := ann.proposeWith(budget(c.in, c.out, "stop"))
			ann.allow(manifest.ContractGate)
			ben.allow(manifest.ContractGate)
			ann.until("failed", func() bool { return ann.state(p.Task).Outcome == "failed" })
			h := ann.state(p.Task).History
			if last := h[len(h)-1]; !strings.HasPrefix(last.Text, "budget-exhausted") || !strings.Contains(last.Text, c.meter) {
				t.Errorf("%+v", last)
			}
			if b := ben.state(p.Task).Budget[c.meter]; b.Committed != c.used || b.Reserved != 0 {
				t.Errorf("%+v, want %d", b, c.used)
			}
			ann.verifies(p.Task)
		})
	}
}

func TestACallWaitsForBothOwners(t *testing.T) { // B5, X4f, H9
	ann, ben := modelPair(t, "3/2", nil)
	p := ann.proposeWith(budget(100_000, 35, "ask"))
	ann.allow(manifest.ContractGate)
	ben.allow(manifest.ContractGate)
	ben.ask(manifest.BudgetGate)
	if b := ben.state(p.Task).Budget["output_tokens"]; b.Limit != 35 || b.Committed+b.Reserved > 35 {
		t.Errorf("while it waits: %+v", b)
	}
	ben.allow(manifest.BudgetGate)
	ann.allow(manifest.BudgetGate)
	ann.allow(manifest.DeliveryGate)
	ann.until("completed", func() bool { return ann.state(p.Task).Released })
	if b := ben.state(p.Task).Budget["output_tokens"]; b.Limit != 70 || b.Committed < 55 || b.Committed > 60 || b.Reserved != 0 {
		t.Errorf("in the end: %+v", b)
	}
	ann.verifies(p.Task)
	ben.verifies(p.Task)
}

func TestACallThatGetsNoMoreEndsTheTask(t *testing.T) { // B5, X4f
	ann, ben := modelPair(t, "1/9", nil)
	p := ann.proposeWith(budget(100_000, 15, "ask"))
	ann.allow(manifest.ContractGate)
	ben.allow(manifest.ContractGate)
	if _, err := ben.answer(ben.ask(manifest.BudgetGate), approval.Deny); err != nil {
		t.Fatal(err)
	}
	ann.until("failed", func() bool { return ann.state(p.Task).Outcome == "failed" })
	if b := ben.state(p.Task).Budget["output_tokens"]; b.Committed != 15 || b.Reserved != 0 {
		t.Errorf("%+v", b)
	}
	ann.verifies(p.Task)
}

func TestACallWithoutAnEndIsChargedAtTheNextStart(t *testing.T) { // B1
	came := make(chan struct{}, 10)
	ann, ben := modelPair(t, "1/1", func(r *http.Request) {
		came <- struct{}{}
		<-r.Context().Done() // it never answers
	})
	p := ann.proposeWith(budget(100_000, 1000, "stop"))
	ann.allow(manifest.ContractGate)
	ben.allow(manifest.ContractGate)
	<-came
	b := ben.state(p.Task).Budget
	in, out := b["input_tokens"].Reserved, b["output_tokens"].Reserved
	if in < 1024 || out != 100 {
		t.Errorf("under way: %+v", b)
	}
	ben.restart()
	b = ben.state(p.Task).Budget
	if b["input_tokens"].Committed != in || b["output_tokens"].Committed != out {
		t.Errorf("after a restart: %+v", b)
	}
	<-came // the work began anew
	if _, err := ann.g.Cancel(context.Background(), gateway.Owner, gateway.Cancellation{Task: p.Task, Reason: "enough"}); err != nil {
		t.Fatal(err)
	}
	ben.until("stopped", func() bool { return ben.state(p.Task).Budget["output_tokens"].Committed == 2*out })
	ann.verifies(p.Task)
}

// A call goes to no provider that accepted does not name, and to no model off the list.
func TestACallIsForARunUnderWayAndWhatTheContractNames(t *testing.T) { // X4a, X4h
	var run gateway.ModelRun
	var mu sync.Mutex
	hold := make(chan struct{})
	ann, ben := modelPair(t, "1/1", func(*http.Request) { <-hold })
	ben.models.keep = func(r gateway.ModelRun) { mu.Lock(); run = r; mu.Unlock() }
	p := ann.proposeWith(budget(100_000, 1000, "stop"))
	ann.allow(manifest.ContractGate)
	ben.allow(manifest.ContractGate)
	ben.until("calling", func() bool { return ben.state(p.Task).Budget["output_tokens"].Reserved > 0 })
	mu.Lock()
	good := gateway.ModelCall{Run: run, Kind: gateway.KindAnthropic, Model: "m-2", Input: 10, Output: 10, Least: 1}
	mu.Unlock()
	try := func(change func(*gateway.ModelCall)) error {
		c := good
		change(&c)
		lease, err := ben.g.BeginModelCall(context.Background(), c)
		if err == nil {
			err = ben.g.EndModelCall(context.Background(), lease, gateway.ModelUse{Input: 1, Output: 1})
		}
		return err
	}
	if err := try(func(*gateway.ModelCall) {}); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*gateway.ModelCall){
		"another model":     func(c *gateway.ModelCall) { c.Model = "x-1" },
		"another kind":      func(c *gateway.ModelCall) { c.Kind = gateway.KindOpenAI },
		"a run before":      func(c *gateway.ModelCall) { c.Run.Run-- },
		"a task of nobody":  func(c *gateway.ModelCall) { c.Run.Task += "x" },
		"less than nothing": func(c *gateway.ModelCall) { c.Input = -1 },
		"beyond everything": func(c *gateway.ModelCall) { c.Input = 1<<53 + 1 },
	} {
		if err := try(change); err == nil {
			t.Errorf("%s: let through", name)
		}
	}
	ben.rules.Providers = map[string]gateway.Provider{"tests": {Kind: gateway.KindAnthropic, Host: "elsewhere.example.org", Models: []string{"m-*"}}}
	if err := ben.g.Reload(ben.rules); err != nil {
		t.Fatal(err)
	}
	if err := try(func(*gateway.ModelCall) {}); err == nil {
		t.Error("a call to somebody whom the contract does not name")
	}
	close(hold)
	ann.allow(manifest.DeliveryGate)
	ben.until("completed", func() bool { return ben.state(p.Task).Outcome == "completed" })
	if err := try(func(*gateway.ModelCall) {}); err == nil {
		t.Error("a call of a run that has ended")
	}
}

func TestAProgramThatClaimsMoreThanThereIsDoesNotDeliver(t *testing.T) { // B2, B5, B6
	ann, ben := pair(t)
	script := filepath.Join(t.TempDir(), "greedy.sh")
	text := "#!/bin/sh\nprintf '{\"output\":{\"lines\":3},\"evidence\":[{\"criterion\":\"ac_1\",\"text\":\"x\"}],\"usage\":{\"inputTokens\":10,\"outputTokens\":101}}'\n"
	if err := os.WriteFile(script, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	ben.rules.Agents["coder"] = gateway.Agent{Command: []string{"/bin/sh", script}, ReadOnly: []string{filepath.Dir(script)}, Model: "own"}
	ben.adopt()
	p := ann.proposeWith(budget(1000, 100, "stop"))
	ann.allow(manifest.ContractGate)
	ben.allow(manifest.ContractGate)
	ann.until("failed", func() bool { return ann.state(p.Task).Outcome == "failed" })
	h := ann.state(p.Task).History
	if last := h[len(h)-1]; last.Text != "budget-exhausted; output_tokens" {
		t.Errorf("%+v", last)
	}
	if b := ben.state(p.Task).Budget["output_tokens"]; b.Committed != 100 || b.Reserved != 0 {
		t.Errorf("%+v", b)
	}
	ann.verifies(p.Task)
}

// deskCall is one call of an agent in its session.
func deskCall(t *testing.T, at string) (status int) {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, at+"/v1/messages", strings.NewReader(`{"model":"m-1","max_tokens":100,"stream":true,"messages":[{"role":"user","content":"hi"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("X-Api-Key", "sba_scribe")
	res, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		t.Fatal(err)
	}
	return res.StatusCode
}

// atDeskWithADoor is a task of an agent in its session that calls models by the gateway.
func atDeskWithADoor(t *testing.T, change func(*manifest.Draft)) (ann, ben *side, id, at string) {
	t.Helper()
	s := model(t, nil)
	ann, ben = pair(t)
	ben.models = &boxModels{at: s.URL}
	ben.rules.Providers = map[string]gateway.Provider{"tests": {Kind: gateway.KindAnthropic, Host: strings.TrimPrefix(s.URL, "http://"), Models: []string{"m-1"}}}
	ben.rules.Agents = map[string]gateway.Agent{"scribe": {Session: true, Model: "door"}}
	ben.restart()
	id = ann.proposeWith(change).Task
	ann.allow(manifest.ContractGate)
	ben.allow(manifest.ContractGate)
	ready(t, ben, id)
	ben.models.llm.Identify = func(token string) (string, bool) { return "scribe", token == "sba_scribe" }
	desk := httptest.NewServer(ben.models.llm.Sessions())
	t.Cleanup(desk.Close)
	return ann, ben, id, desk.URL
}

func TestCallsOfAnAgentInItsSessionCountForItsTask(t *testing.T) { // X4b, X4h, B6
	ann, ben, id, at := atDeskWithADoor(t, budget(20_000, 1000, "stop"))
	ctx := context.Background()
	if status := deskCall(t, at); status != http.StatusForbidden {
		t.Errorf("before start_task: %d", status)
	}
	if _, err := ben.g.StartWork(ctx, scribe, gateway.Ref{Task: id}); err != nil {
		t.Fatal(err)
	}
	for _, where := range []string{at, at + "/task/" + id} {
		if status := deskCall(t, where); status != http.StatusOK {
			t.Errorf("%s: %d", where, status)
		}
	}
	if status := deskCall(t, at+"/task/task_01KBQ4T9YJ6W2M8Z3R5X7C1D0E"); status != http.StatusNotFound {
		t.Errorf("a task of nobody: %d", status)
	}
	if _, err := ben.g.Checkpoint(ctx, scribe, gateway.Told{Task: id, Text: "half", InputTokens: 19_999}); err != nil { // counted is what went through
		t.Fatal(err)
	}
	if _, err := ben.g.ReturnResult(ctx, scribe, gateway.Returned{Told: gateway.Told{Task: id}, Output: lines("3")}); err != nil {
		t.Fatal(err)
	}
	if status := deskCall(t, at); status != http.StatusForbidden {
		t.Errorf("after its delivery: %d", status)
	}
	ann.allow(manifest.DeliveryGate)
	ann.until("completed", func() bool { return ann.state(id).Released })
	rep := ann.verifies(id)
	if f := rep.Facts; f.Model != "door" || f.Used.InputTokens != 200 || f.Used.OutputTokens != 20 || f.Used.Source.InputTokens != "claimed" {
		t.Errorf("%+v", f)
	}
}

func TestASessionWhoseTokensAreUsedUpEndsOrStartsAnew(t *testing.T) { // B5, X4f
	for _, over := range []string{"stop", "ask"} {
		t.Run(over, func(t *testing.T) {
			ann, ben, id, at := atDeskWithADoor(t, budget(20_000, 15, over))
			ctx := context.Background()
			start := func() {
				t.Helper()
				if _, err := ben.g.StartWork(ctx, scribe, gateway.Ref{Task: id}); err != nil {
					t.Fatal(err)
				}
			}
			start()
			for want, calls := http.StatusOK, 3; calls > 0; calls-- {
				if calls == 1 {
					want = http.StatusPaymentRequired
				}
				if status := deskCall(t, at); status != want {
					t.Errorf("%d calls left: %d, want %d", calls, status, want)
				}
			}
			if over == "stop" {
				ann.until("failed", func() bool { return ann.state(id).Outcome == "failed" })
				return
			}
			ben.allow(manifest.BudgetGate)
			ann.allow(manifest.BudgetGate)
			ben.until("amended", func() bool { return ben.state(id).Budget["output_tokens"].Limit == 30 })
			start()
			if status := deskCall(t, at); status != http.StatusOK {
				t.Errorf("after both said yes: %d", status)
			}
			if b := ben.state(id).Budget["output_tokens"]; b.Committed != 25 || b.Reserved != 0 {
				t.Errorf("%+v", b)
			}
		})
	}
}

// ledgerModel is what the two meters of tokens have to be: a second, simpler count.
type ledgerModel struct {
	limit, charged [2]int64
	open           map[string][2]int64 // by lease
}

func (m *ledgerModel) free(i int) int64 {
	free := m.limit[i] - m.charged[i]
	for _, held := range m.open {
		free -= held[i]
	}
	return free
}

// end charges a call: used where it is a figure, as far as there is anything left.
func (m *ledgerModel) end(id string, used [2]int64) {
	held, there := m.open[id]
	if !there {
		return
	}
	for i := range used {
		n := held[i]
		if used[i] >= 0 && used[i] <= 1<<53 {
			n = min(used[i], held[i]+m.free(i))
		}
		m.charged[i] += n
	}
	delete(m.open, id)
}

// B2 on any interleaving of calls, ends of every kind and stops: the meters are
// what a second count says, to the token.
func TestMetersOfCallsHoldOnAnySchedule(t *testing.T) { // B1, B2, B6, B011
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 7))
			_, ben, id, _ := atDeskWithADoor(t, budget(5000, 2000, "stop"))
			ctx := context.Background()
			if _, err := ben.g.StartWork(ctx, scribe, gateway.Ref{Task: id}); err != nil {
				t.Fatal(err)
			}
			run, err := ben.g.ModelRunOf(ctx, scribe, gateway.Ref{})
			if err != nil {
				t.Fatal(err)
			}
			m := &ledgerModel{limit: [2]int64{5000, 2000}, open: map[string][2]int64{}}
			leases := map[string]gateway.ModelLease{}
			var old []gateway.ModelLease // ended, or lost by a stop
			for step := range 150 {
				switch k := r.IntN(20); {
				case k < 9:
					in := gateway.ModelCall{Run: run, Kind: gateway.KindAnthropic, Model: "m-1", Input: r.Int64N(300), Output: 1 + r.Int64N(200), Least: 1}
					if m.free(0) < in.Input || m.free(1) < in.Least {
						continue // it would wait, or end the run
					}
					lease, err := ben.g.BeginModelCall(ctx, in)
					if err != nil {
						t.Fatalf("step %d: %v", step, err)
					}
					if want := min(in.Output, m.free(1)); lease.Output != want {
						t.Fatalf("step %d: %d tokens of output, want %d", step, lease.Output, want)
					}
					leases[lease.ID], m.open[lease.ID] = lease, [2]int64{in.Input, lease.Output}
				case k < 18 && len(leases) > 0:
					ids := slices.Sorted(maps.Keys(leases))
					lease := leases[ids[r.IntN(len(ids))]]
					figure := func() int64 {
						return []int64{gateway.Unknown, -1 << 60, 1<<53 + 1, r.Int64N(5), r.Int64N(200), r.Int64N(100), r.Int64N(50)}[r.IntN(7)]
					}
					used := gateway.ModelUse{Input: figure(), Output: figure()}
					for range 1 + r.IntN(2) { // an end that comes twice is one
						if err := ben.g.EndModelCall(ctx, lease, used); err != nil {
							t.Fatalf("step %d: %v", step, err)
						}
					}
					m.end(lease.ID, [2]int64{used.Input, used.Output})
					delete(leases, lease.ID)
					old = append(old, lease)
				case k == 18 && len(old) > 0: // an end that comes late
					if err := ben.g.EndModelCall(ctx, old[r.IntN(len(old))], gateway.ModelUse{Input: 1000, Output: 1000}); err != nil {
						t.Fatalf("step %d: %v", step, err)
					}
				case k == 19:
					ben.restart()
					for id, lease := range leases {
						m.end(id, [2]int64{gateway.Unknown, gateway.Unknown})
						old = append(old, lease)
					}
					clear(leases)
				}
				b := ben.state(id).Budget
				for i, name := range []string{"input_tokens", "output_tokens"} {
					var held int64
					for _, h := range m.open {
						held += h[i]
					}
					if got := b[name]; got.Committed != m.charged[i] || got.Reserved != held || got.Committed+got.Reserved > got.Limit {
						t.Fatalf("step %d: %s is %+v, want %d charged and %d held", step, name, got, m.charged[i], held)
					}
				}
			}
		})
	}
}
