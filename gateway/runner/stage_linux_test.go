package runner

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// isolated skips, with a plain word, where the kernel does not let us.
func isolated(t *testing.T) *Exec {
	t.Helper()
	x := newExec(t)
	if !x.isolated {
		t.Skip("this machine gives us no user namespaces: isolation not run")
	}
	return x
}

func TestAnIsolatedProgramSeesAndTouchesNothingOfOurs(t *testing.T) {
	x := isolated(t)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("s3cret"), 0o644); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			fmt.Fprintln(c, "s3cret")
			c.Close()
		}
	}()
	home, _ := os.UserHomeDir()
	port := l.Addr().(*net.TCPAddr).Port
	for name, script := range map[string]string{
		"our files":           `cat ` + secret,
		"the home":            `ls ` + home + ` && echo s3cret`,
		"other runs":          `ls ` + x.dir + ` && echo s3cret`,
		"shadow":              `cat /etc/shadow && echo s3cret`,
		"the old root":        `ls /.old && echo s3cret`,
		"writing the system":  `echo x >/usr/x && echo s3cret`,
		"writing the root":    `echo x >/x && echo s3cret`,
		"writing the inputs":  `echo x >in/x && echo s3cret`,
		"mounting":            `mount -t tmpfs none /sealbridge-work/tmp && echo s3cret`,
		"undoing read-only":   `mount -o remount,rw,bind /usr && echo s3cret`,
		"signalling us":       `kill -0 ` + fmt.Sprint(os.Getpid()) + ` && echo s3cret`,
		"our processes":       `cat /proc/` + fmt.Sprint(os.Getpid()) + `/environ && echo s3cret`,
		"our root":            `ls /proc/1/root` + filepath.Dir(secret) + ` && echo s3cret`,
		"the network":         `exec 3<>/dev/tcp/127.0.0.1/` + fmt.Sprint(port) + ` && cat <&3`,
		"a disk":              `ls /dev/sda /dev/vda /dev/mem && echo s3cret`,
		"privileges":          `grep CapEff:.*[1-9a-f] /proc/self/status && echo s3cret`,
		"a larger descriptor": `ulimit -n 5000 && echo s3cret`,
	} {
		res, err := x.Run(t.Context(), Command{Argv: []string{"bash", "-c", script}, WallClock: time.Minute})
		if err != nil || strings.Contains(string(res.Stdout), "s3cret") {
			t.Errorf("%s: %q, %v", name, res.Stdout, err)
		}
		if err := res.Close(); err != nil {
			t.Errorf("%s: Close = %v", name, err)
		}
	}
}

func TestAForkBombRunsIntoItsLimit(t *testing.T) {
	x := isolated(t)
	res, err := x.Run(t.Context(), Command{
		Argv: []string{"bash", "-c", `for i in $(seq 900); do sleep 300 & done 2>/dev/null; jobs -r | wc -l`}, WallClock: 2 * time.Second,
	})
	t.Cleanup(func() { res.Close() }) // also of a run that failed
	limited := slices.Contains(x.Enforces(Subprocess), "number of processes limited")
	if all := strings.HasPrefix(string(res.Stdout), "900"); err != nil || all == limited {
		t.Errorf("900 processes: %q, %v, with a limit: %v", res.Stdout, err, limited)
	}
	if alive(res.workspace.mark) {
		t.Errorf("some still run")
	}
}

func TestAnIsolatedProgramHasWhatItNeeds(t *testing.T) {
	x := isolated(t)
	own := filepath.Join(t.TempDir(), "tools")
	if err := os.MkdirAll(own, 0o755); err != nil {
		t.Fatal(err)
	}
	agent := filepath.Join(own, "agent")
	if err := os.WriteFile(agent, []byte("#!/bin/sh\ncat \"$(dirname \"$0\")/data\"; pwd; id -u; ls /tmp >&2; echo ok >/dev/null\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(own, "data"), []byte("data\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	res, err := x.Run(t.Context(), Command{Argv: []string{agent}, ReadOnly: []string{own}, WallClock: time.Minute})
	t.Cleanup(func() { res.Close() }) // also of a run that failed
	if err != nil || !res.OK() || string(res.Stdout) != "data\n/sealbridge-work\n1000\n" {
		t.Errorf("Run = %+v, %v, %q, %q", res, err, res.Stdout, res.StderrTail)
	}
}
