package notify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"sealbridge/manifest"
)

// passed are the variables that an owner's program may see: its way to the
// screen and to its own settings, and nothing that programs put secrets into.
var passed = []string{"PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "XDG_RUNTIME_DIR",
	"DBUS_SESSION_BUS_ADDRESS", "SystemRoot", "USERPROFILE", "APPDATA"}

func environment() (env []string) {
	for _, name := range passed {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// run runs one command without a shell. When it ends, and when its time is over,
// its whole process group ends.
func run(ctx context.Context, argv []string, n Note) error {
	argv = filled(argv, n)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env, cmd.Dir = environment(), os.TempDir()
	said := &tail{max: maxStderr}
	cmd.Stderr = said // stdout goes nowhere
	group(cmd)
	cmd.Cancel = func() error { return kill(cmd.Process) }
	cmd.WaitDelay = time.Second // for pipes that a child of it still holds
	err := cmd.Run()
	if cmd.Process != nil {
		kill(cmd.Process) //nolint:errcheck // whoever is left of the group; usually nobody
	}
	switch {
	case err == nil, errors.Is(err, exec.ErrWaitDelay) && ctx.Err() == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("ended after %s", perWay)
	}
	if text := said.text(); text != "" {
		return fmt.Errorf("%w: %s", err, text)
	}
	return err
}

// tail keeps the first bytes of what is written and swallows the rest.
type tail struct {
	b   bytes.Buffer
	max int
}

func (t *tail) Write(p []byte) (int, error) {
	if room := t.max - t.b.Len(); room > 0 {
		t.b.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

func (t *tail) text() string {
	line, _ := t.b.ReadString('\n')
	return manifest.Display(string(bytes.TrimSpace([]byte(line))), 200)
}

var _ io.Writer = (*tail)(nil)
