package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	natsd "github.com/nats-io/nats-server/v2/server"
)

// What the command prints is all that a stock server has to be told.
func TestARelayIsAttachedToAServerThatWasTold(t *testing.T) {
	dir, err := os.MkdirTemp("", "sb") // short: sockets are in it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	if code, _, errs := inProcess(nil, "relay", "init", "--dir", dir, "--url", "nats://127.0.0.1:"+port); code != 0 {
		t.Fatal(errs)
	}
	config := filepath.Join(dir, "relay.yaml")
	attach := func(more ...string) (int, string, string) {
		return inProcess(nil, append([]string{"relay", "attach", "--config", config, "--log-level", "error"}, more...)...)
	}
	if code, _, errs := attach("--nats", "nats://127.0.0.1:"+port); code != exitNo || !strings.Contains(errs, "--server-config") {
		t.Fatalf("without keys: %d %s", code, errs)
	}
	_, text, errs := attach("--server-config")
	if errs != "" {
		t.Fatal(errs)
	}
	if _, again, _ := attach("--server-config"); again != text {
		t.Error("asked again, it made other keys")
	}
	if code, _, errs := attach("--nats", "nats://127.0.0.1:"+port); code != exitUnreachable {
		t.Fatalf("nobody there: %d %s", code, errs)
	}
	conf := filepath.Join(dir, "nats.conf")
	text += fmt.Sprintf("listen: \"127.0.0.1:%s\"\njetstream { store_dir: %q }\n", port, filepath.Join(dir, "js"))
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	o, err := natsd.ProcessConfigFile(conf)
	if err != nil {
		t.Fatal(err)
	}
	o.NoSigs, o.NoLog = true, true
	ns, err := natsd.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	ns.Start()
	t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
	if !ns.ReadyForConnections(10 * time.Second) {
		t.Fatal("the server did not come up")
	}
	done := make(chan string)
	go func() {
		code, out, errs := attach("--nats", "nats://127.0.0.1:"+port)
		done <- fmt.Sprint(code, " ", out, errs)
	}()
	var info string
	for limit := time.Now().Add(20 * time.Second); ; <-time.After(10 * time.Millisecond) {
		code, out, errs := inProcess(nil, "relay", "info", "--config", config)
		if code == 0 {
			info = out
			break
		}
		if time.Now().After(limit) {
			t.Fatalf("%d %s", code, errs)
		}
	}
	if !strings.Contains(info, "nats://127.0.0.1:"+port+"/z6Mk") || !strings.Contains(info, "takes mail: true") {
		t.Error(info)
	}
	if code, _, errs := inProcess(nil, "relay", "drain", "--config", config); code != 0 {
		t.Error(errs)
	}
	if end := <-done; !strings.HasPrefix(end, "0 ") || !strings.Contains(end, "via your NATS") {
		t.Error(end)
	}
}
