package runner

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sealbridge/spec"
)

// echo answers a line with who answers.
func echo(name string) func(context.Context, *Box, net.Conn) {
	return func(_ context.Context, _ *Box, c net.Conn) {
		line, _ := bufio.NewReader(c).ReadString('\n')
		fmt.Fprintf(c, "%s heard %s", name, line)
	}
}

// knock is a program that says a word at a port and prints the answer.
func knock(port int, word string) string {
	return fmt.Sprintf(`exec 3<>/dev/tcp/127.0.0.1/%d && echo %s >&3 && cat <&3; exec 3>&-; `, port, word)
}

func bash(script string) []string { return []string{"bash", "-c", script} }

func TestAPortLeadsToUsAndToNobodyElse(t *testing.T) { // X3
	x := isolated(t)
	done := make(chan string, 2)
	for _, name := range []string{"one", "two"} { // the same numbers at once: each run has a network of its own
		go func() {
			res, err := x.Run(t.Context(), Command{
				Argv:  bash(knock(7001, "a") + knock(7002, "b") + knock(7001, "c") + `(echo >/dev/tcp/127.0.0.1/7003) 2>/dev/null || echo closed`),
				Ports: []Port{{7001, echo(name)}, {7002, echo(name + "'s second")}}, WallClock: time.Minute,
			})
			t.Cleanup(func() { res.Close() })
			want := strings.ReplaceAll("X heard a\nX's second heard b\nX heard c\nclosed\n", "X", name)
			if err != nil || !res.OK() || string(res.Stdout) != want {
				t.Errorf("Run = %q, %v, stderr %s; want %q", res.Stdout, err, res.StderrTail, want)
			}
			if got := strings.Join(res.Enforced, ", "); !strings.Contains(got, "no network but through this gateway") {
				t.Errorf("enforced: %s", got)
			}
			done <- name
		}()
	}
	<-done
	<-done
}

func TestAPortLeavesNoDescriptorAndNoOtherWay(t *testing.T) { // X3
	x := isolated(t)
	host, err := net.Listen("tcp", "127.0.0.1:0") // of the machine, not of the run
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	for name, script := range map[string]string{
		"a descriptor":        `for f in $(seq 3 60); do (eval ": <&$f") 2>/dev/null && echo s3cret; done`,
		"the list of them":    `ls -l /proc/self/fd | grep -i socket && echo s3cret`,
		"a port of the host":  fmt.Sprintf(`exec 3<>/dev/tcp/127.0.0.1/%d && echo s3cret`, host.Addr().(*net.TCPAddr).Port),
		"an address outside":  `exec 3<>/dev/tcp/192.0.2.1/80 && echo s3cret`,
		"a name":              `exec 3<>/dev/tcp/example.org/80 && echo s3cret`,
		"a datagram outside":  `exec 3<>/dev/udp/192.0.2.1/53 && echo x >&3 && echo s3cret`,
		"another interface":   `grep -v 'lo:\|^Inter\|^ face' /proc/net/dev | grep : && echo s3cret`,
		"a route":             `[ $(wc -l </proc/net/route) -gt 1 ] && echo s3cret`,
		"privileges over it":  `grep CapEff:.*[1-9a-f] /proc/self/status && echo s3cret`,
		"switching lo off":    `ip link set lo down && echo s3cret`,
		"sockets of the host": `[ $(wc -l </proc/net/unix) -gt 1 ] && echo s3cret`,
	} {
		res, err := x.Run(t.Context(), Command{Argv: bash(script), Ports: []Port{{7001, echo("x")}}, WallClock: time.Minute})
		if err != nil || strings.Contains(string(res.Stdout), "s3cret") {
			t.Errorf("%s: %q, %v", name, res.Stdout, err)
		}
		res.Close()
	}
	c, err := net.Dial("tcp", "127.0.0.1:7001")
	if err == nil {
		c.Close()
		t.Error("the port of a run answers outside of it")
	}
}

func TestPortsEndWithTheRun(t *testing.T) {
	x := isolated(t)
	endsWithTheRun(t, x) // what Go itself opens, once
	before := descriptors(t)
	endsWithTheRun(t, x)
	if after := descriptors(t); after > before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

func endsWithTheRun(t *testing.T, x *Exec) {
	t.Helper()
	ended := make(chan error, 1)
	res, err := x.Run(t.Context(), Command{
		Argv: bash(`exec 3<>/dev/tcp/127.0.0.1/7001; read -u 3 line; setsid sleep 300 & exit 0`), WallClock: time.Minute,
		Ports: []Port{{7001, func(ctx context.Context, _ *Box, c net.Conn) {
			fmt.Fprintln(c, "go")
			_, err := io.Copy(io.Discard, c) // until the run ends
			if err == nil {
				err = ctx.Err()
			}
			ended <- err
		}}},
	})
	defer func() { res.Close() }()
	if err != nil || !res.OK() {
		t.Fatalf("Run = %+v, %v, %s", res, err, res.StderrTail)
	}
	select {
	case <-ended:
	default:
		t.Error("Run returned before what it served")
	}
}

// descriptors counts ours.
func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func TestManyGuestsWaitInLine(t *testing.T) {
	x := isolated(t)
	var now, most atomic.Int64
	script := `for i in $(seq 200); do (` + knock(7001, "x") + `) & done; wait`
	res, err := x.Run(t.Context(), Command{Argv: bash(script), WallClock: time.Minute, Ports: []Port{{7001, func(ctx context.Context, b *Box, c net.Conn) {
		if n := now.Add(1); n > most.Load() {
			most.Store(n)
		}
		defer now.Add(-1)
		echo("x")(ctx, b, c)
	}}}})
	t.Cleanup(func() { res.Close() })
	if n := strings.Count(string(res.Stdout), "x heard x\n"); err != nil || n != 200 || most.Load() > maxGuests {
		t.Errorf("%d answers, at most %d at once, %v, %s", n, most.Load(), err, res.StderrTail)
	}
}

func TestARunStandsStillWhileAPersonIsAsked(t *testing.T) { // B4, G8
	x := isolated(t)
	held := false
	res, err := x.Run(t.Context(), Command{
		Argv:      bash(`(while :; do :; done) & w=$!; ` + knock(7001, "please") + `kill $w; exit 0`),
		WallClock: 30 * time.Second,
		Ports: []Port{{7001, func(ctx context.Context, b *Box, c net.Conn) {
			line, _ := bufio.NewReader(c).ReadString('\n')
			b.Hold(ctx, func(ctx context.Context) {
				states := statesOf(t, "while :; do :; done")
				if held = len(states) >= 2 && strings.Trim(strings.Join(states, ""), "T") == ""; !held {
					t.Errorf("while a person is asked the processes are in states %v, want two or more, all stopped", states)
				}
			})
			fmt.Fprint(c, "yes to "+line)
		}}},
	})
	t.Cleanup(func() { res.Close() })
	if err != nil || !res.OK() || string(res.Stdout) != "yes to please\n" || !held {
		t.Fatalf("Run = %+v, %v, %q, %s", res, err, res.Stdout, res.StderrTail)
	}
}

func TestAHeldRunCanBeCancelled(t *testing.T) {
	x := isolated(t)
	ctx, cancel := context.WithCancel(t.Context())
	res, err := x.Run(ctx, Command{
		Argv: bash(knock(7001, "please")), WallClock: time.Minute,
		Ports: []Port{{7001, func(ctx context.Context, b *Box, _ net.Conn) {
			b.Hold(ctx, func(ctx context.Context) { cancel(); <-ctx.Done() })
		}}},
	})
	t.Cleanup(func() { res.Close() })
	if err != nil || !res.Cancelled || res.OK() {
		t.Fatalf("Run = %+v, %v", res, err)
	}
}

func TestPortsAreRefusedWhereTheyCannotBeKept(t *testing.T) { // never quietly weakened
	x := newExec(t)
	p := func(n uint16) Port { return Port{n, echo("x")} }
	for _, test := range []struct {
		name    string
		c       Command
		isolate bool
		want    spec.Reason
	}{
		{"no network of its own", Command{Ports: []Port{p(7001)}}, false, spec.UnsupportedIsolation},
		{"twice", Command{Ports: []Port{p(7001), p(7001)}}, true, spec.Malformed},
		{"privileged", Command{Ports: []Port{p(80)}}, true, spec.Malformed},
		{"served by nobody", Command{Ports: []Port{{Number: 7001}}}, true, spec.Malformed},
		{"nine", Command{Ports: []Port{p(7001), p(7002), p(7003), p(7004), p(7005), p(7006), p(7007), p(7008), p(7009)}}, true, spec.Malformed},
	} {
		test.c.Argv, test.c.WallClock = []string{"true"}, time.Minute
		res, err := x.run(t.Context(), test.c, test.isolate)
		wantReason(t, test.name, err, test.want)
		if res.OK() {
			t.Errorf("%s: it ran", test.name)
		}
	}
	if x.Ports() != x.Isolated() {
		t.Errorf("Ports = %v, Isolated = %v", x.Ports(), x.Isolated())
	}
}
