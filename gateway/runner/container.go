package runner

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"sealbridge/manifest"
	"sealbridge/signing"
	"sealbridge/spec"
)

// engines are the programs that run containers, the one that needs no service of root's first.
var engines = []string{"podman", "docker"}

const (
	engineAnswers = 10 * time.Second // how long an engine may take for anything but a run
	runsLabel     = "sealbridge.runs"
)

// engine is a container engine that answered.
type engine struct {
	path, name, version string
	runs                string // what our containers are labelled with
}

// shelf holds the engine once it was looked for. It is looked for when somebody
// wants a container and not before: most gateways never do.
type shelf struct {
	looking sync.Mutex // held by the one who looks, which takes a while

	mu     sync.Mutex // both below; held for a moment
	engine *engine
	lacks  string
}

func (s *shelf) get() (*engine, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.engine, s.lacks
}

func (s *shelf) set(e *engine, lacks string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.engine, s.lacks = e, lacks
}

// FindEngine looks for an engine that answers, once it was found not again, and
// removes containers that an earlier process left. It says whether there is one;
// what is lacking else.
func (x *Exec) FindEngine(ctx context.Context) (ok bool, lacks string) {
	x.shelf.looking.Lock()
	defer x.shelf.looking.Unlock()
	if e, _ := x.shelf.get(); e != nil {
		return true, ""
	}
	var tried []string
	for _, name := range engines {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		e := &engine{path: path, name: name, runs: signing.DigestOf([]byte(x.dir)).String()[len("sha256:"):][:16]}
		out, err := e.ask(ctx, "version", "--format", map[string]string{"podman": "{{.Client.Version}}", "docker": "{{.Server.Version}}"}[name])
		if err != nil {
			tried = append(tried, name+": "+err.Error())
			continue
		}
		e.version = manifest.Display(out, 40)
		e.clear(ctx)
		x.shelf.set(e, "")
		return true, ""
	}
	lacks = "no container engine: podman or docker"
	if len(tried) > 0 {
		lacks = "no container engine answers: " + strings.Join(tried, "; ")
	}
	x.shelf.set(nil, lacks)
	return false, lacks
}

func (x *Exec) engine() *engine {
	e, _ := x.shelf.get()
	return e
}

// ask runs one short command of the engine.
func (e *engine) ask(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, engineAnswers)
	defer cancel()
	cmd := exec.CommandContext(ctx, e.path, args...)
	cmd.WaitDelay = grace
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = errors.New(manifest.Display(firstLine(exit.Stderr), 200))
	}
	return strings.TrimSpace(string(out)), err
}

func firstLine(b []byte) string {
	line, _, _ := bytes.Cut(bytes.TrimSpace(b), []byte("\n"))
	return string(line)
}

// clear removes containers of an earlier process of ours.
func (e *engine) clear(ctx context.Context) {
	left, err := e.ask(ctx, "ps", "--all", "--quiet", "--filter", "label="+runsLabel+"="+e.runs)
	if err == nil && left != "" {
		e.ask(ctx, append([]string{"rm", "--force"}, strings.Fields(left)...)...)
	}
}

// CheckImage says whether an image is named as it must be: by the digest of its
// bytes, so that no name can come to mean another.
func CheckImage(image string) error {
	_, err := imageDigest(image)
	return err
}

func imageDigest(image string) (d signing.Digest, err error) {
	name, digest, ok := strings.Cut(image, "@")
	if ok {
		d, err = signing.ParseDigest(digest)
	}
	if !ok || err != nil || name == "" || name[0] == '-' || strings.ContainsAny(name, " \t\n@") {
		return d, spec.Refuse(spec.Malformed, "/image", "NAME@sha256:… , pinned by its digest")
	}
	return d, nil
}

// container is the run of an image: the engine's own program, which talks to the
// container until that ends.
func (x *Exec) container(ctx context.Context, c Command, w *workspace) (l launched, err error) {
	e := x.engine()
	if e == nil {
		return l, spec.Refuse(spec.UnsupportedIsolation, "/image", "a container engine that answers")
	}
	if strings.ContainsAny(w.dir, `,"`) {
		return l, spec.Refuse(spec.Malformed, "/dir", "a folder without commas and quotes, for a container engine")
	}
	if _, err := e.ask(ctx, "image", "inspect", "--format", "{{.Id}}", c.Image); err != nil {
		return l, &spec.Error{Reason: spec.NotFound, Path: "/image", Limit: "no such image here, and none is fetched for a run: " + e.name + " pull " + c.Image, Err: err}
	}
	name := "sealbridge-" + strings.ToLower(w.mark)
	l.cmd = exec.CommandContext(ctx, e.path, e.argv(c, w, name)...)
	group(l.cmd)
	l.kill = func() error {
		err := kill(l.cmd.Process)
		e.ask(context.WithoutCancel(ctx), "rm", "--force", name) // after its client, which could still start it
		return err
	}
	l.freeze = func() func() {
		e.ask(ctx, "pause", name)
		return func() { e.ask(ctx, "unpause", name) }
	}
	return l, nil
}

// argv is one run: no network, a root that nobody writes, nothing to be gained,
// and limits.
func (e *engine) argv(c Command, w *workspace, name string) []string {
	in := func(sub string) string { return filepath.Join(w.work(), sub) }
	bind := func(from, to, more string) string {
		return "--mount=type=bind,source=" + from + ",destination=" + to + more
	}
	memory := strconv.FormatInt(c.Memory, 10)
	argv := []string{"run", "--rm", "--interactive", "--name=" + name, "--label=" + runsLabel + "=" + e.runs, "--pull=never",
		"--network=none", "--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges", "--ipc=private",
		"--pids-limit=" + strconv.Itoa(maxProcesses), "--memory=" + memory, "--memory-swap=" + memory,
		"--ulimit=core=0:0", fmt.Sprintf("--ulimit=nofile=%d:%d", maxOpen, maxOpen), fmt.Sprintf("--ulimit=fsize=%d:%d", c.FilesLimit, c.FilesLimit),
		"--log-driver=none", "--workdir=" + insideWork,
		bind(w.work(), insideWork, ""), bind(in("in"), insideWork+"/in", ",readonly"), bind(in("tmp"), "/tmp", "")}
	if runtime.GOOS != "windows" {
		argv = append(argv, fmt.Sprintf("--user=%d:%d", os.Getuid(), os.Getgid()))
	}
	if e.name == "podman" && os.Getuid() != 0 {
		argv = append(argv, "--userns=keep-id") // else our files are root's inside
	}
	env := map[string]string{"HOME": insideWork, "TMPDIR": "/tmp", "LANG": "C.UTF-8", "SEALBRIDGE_RUN": w.mark}
	for k, v := range c.Env {
		env[k] = strings.ReplaceAll(v, "\x00", "")
	}
	names := make([]string, 0, len(env))
	for k := range env {
		names = append(names, k)
	}
	slices.Sort(names)
	for _, k := range names {
		argv = append(argv, "--env="+k+"="+env[k])
	}
	return append(append(argv, c.Image), c.Argv...)
}
