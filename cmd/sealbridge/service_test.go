package main

import (
	"encoding/xml"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A path with anything in it stays one word of one line.
func TestPathsStayInTheirUnit(t *testing.T) {
	for path, want := range map[string]string{
		"/usr/bin/sealbridge":      "/usr/bin/sealbridge",
		"/a b/c":                   `"/a b/c"`,
		`/a"b\c`:                   `"/a\"b\\c"`,
		"/100%/$HOME":              "/100%%/$$HOME",
		"/a\n[Service]\nUser=root": `"/a\n[Service]\nUser=root"`,
	} {
		if got := unitWord(path); got != want {
			t.Errorf("unitWord(%q) = %s, want %s", path, got, want)
		}
		for _, text := range []string{gatewayUnit("/bin/sealbridge", path), gatewayUnit(path, "/home")} {
			for line := range strings.Lines(text) {
				if strings.HasPrefix(line, "[") && !strings.Contains("[Unit]\n[Service]\n[Install]\n", line) || strings.Count(text, "\n[Service]\n") != 1 {
					t.Errorf("%q broke out: %s", path, text)
				}
			}
		}
		d := xml.NewDecoder(strings.NewReader(launchAgent("x", path, path+"<&>")))
		for {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Errorf("%q: %v", path, err)
				break
			}
		}
	}
}

// Type=notify: the manager hears READY once the relay serves, STOPPING when it ends.
func TestARelayTellsItsServiceManager(t *testing.T) {
	dir, err := os.MkdirTemp("", "sb") // short: sockets are in it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	at := filepath.Join(dir, "n")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: at, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	t.Setenv("NOTIFY_SOCKET", at)
	hear := func(want string) {
		t.Helper()
		b := make([]byte, 100)
		if err := l.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
			t.Fatal(err)
		}
		n, err := l.Read(b)
		if err != nil || string(b[:n]) != want {
			t.Fatalf("heard %q, %v, want %s", b[:n], err, want)
		}
	}
	store := filepath.Join(dir, "s")
	done := make(chan int)
	go func() {
		code, _, _ := inProcess(nil, "relay", "--store", store, "--listen", "127.0.0.1:0", "--log-level", "error")
		done <- code
	}()
	hear("READY=1")
	if code, out, errs := inProcess(nil, "relay", "drain", "--store", store); code != 0 {
		t.Errorf("drain: %d %s%s", code, out, errs)
	}
	hear("STOPPING=1")
	if code := <-done; code != 0 {
		t.Errorf("the relay ended with %d", code)
	}
}
