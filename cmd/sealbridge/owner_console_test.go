package main

import (
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"sealbridge/gateway"
)

func TestACommandOpensTheConsoleOnce(t *testing.T) {
	d, _ := story(t)
	ctx := t.Context()
	for _, step := range []error{d.startRelay(ctx), d.identities(ctx)} {
		if step != nil {
			t.Fatal(step)
		}
	}
	t.Cleanup(func() { d.kill("ann"); d.kill("relay") })
	if _, err := d.start(ctx, "ann", serving, "--home", filepath.Join(d.dir, "ann"), "serve", "--console", "0"); err != nil {
		t.Fatal(err)
	}
	link, err := ask[gateway.Login](ctx, d, "ann", "console", "--print")
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{http.StatusOK, http.StatusForbidden} {
		jar, err := cookiejar.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := (&http.Client{Jar: jar}).Get(link.URL)
		if err != nil {
			t.Fatal(err)
		}
		page, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode != want || (want == http.StatusOK) != strings.Contains(string(page), "Nothing waits for you") {
			t.Errorf("use %d: %s\n%s", i+1, res.Status, page)
		}
	}
}

func TestAGatewayRunsOnWhereTheConsolesPortIsTaken(t *testing.T) {
	d, _ := story(t)
	ctx := t.Context()
	for _, step := range []error{d.startRelay(ctx), d.identities(ctx)} {
		if step != nil {
			t.Fatal(step)
		}
	}
	t.Cleanup(func() { d.kill("relay") })
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	if _, err := d.start(ctx, "ann", serving, "--home", filepath.Join(d.dir, "ann"), "serve", "--console", port); err != nil {
		t.Fatal(err)
	}
	if _, err := ask[gateway.Status](ctx, d, "ann", "status"); err != nil {
		t.Errorf("the gateway does not run: %v", err)
	}
	code, _, errs := inProcess(nil, "--home", filepath.Join(d.dir, "ann"), "console", "--print")
	if code != exitUnreachable || !strings.Contains(errs, "without its console") {
		t.Errorf("exit %d: %s", code, errs)
	}
	p := d.procs["ann"]
	d.kill("ann")
	if !strings.Contains(p.log.String(), "port "+port+" is taken") {
		t.Errorf("serve said: %s", p.log)
	}
}
