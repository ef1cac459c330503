package notify

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"sealbridge/spec"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func teller(t *testing.T, ways ...Way) *Teller {
	t.Helper()
	out := New([]byte("0123456789abcdef0123456789abcdef"), func() time.Time { return noon })
	if err := out.Use(ways); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestTheSignatureIsThatOfStandardWebhooks holds ours against the example that the specification publishes.
func TestTheSignatureIsThatOfStandardWebhooks(t *testing.T) { // J11
	secret, err := ParseSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n")
	if err != nil {
		t.Fatal(err)
	}
	got := Signature(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`))
	if want := "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for _, bad := range []string{"", "whsec_", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_AAAA", "whsec_!", "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 65))} {
		if _, err := ParseSecret(bad); spec.ReasonOf(err) != spec.Malformed {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// answered is a server on this machine that gives one answer after the other.
func answered(t *testing.T, answers ...http.HandlerFunc) (url string, seen func() []*http.Request, bodies func() []string) {
	t.Helper()
	var mu sync.Mutex
	var reqs []*http.Request
	var texts []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		mu.Lock()
		n := len(reqs)
		reqs, texts = append(reqs, r), append(texts, string(b))
		mu.Unlock()
		answers[min(n, len(answers)-1)](w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL, func() []*http.Request { mu.Lock(); defer mu.Unlock(); return reqs }, func() []string { mu.Lock(); defer mu.Unlock(); return texts }
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

func TestAPostIsSignedAndHoldsIdsOnly(t *testing.T) { // J10, J11
	url, seen, bodies := answered(t, status(204))
	tell := teller(t, Way{URL: url + "/hook?token=hidden"})
	if err := tell.Notify(context.Background(), "ntf_1", []string{"apr_A", "apr_B"}); err != nil {
		t.Fatal(err)
	}
	r, body := seen()[0], bodies()[0]
	if body != `{"v":1,"id":"ntf_1","count":2,"waiting":["apr_A","apr_B"]}` {
		t.Errorf("%s", body)
	}
	if got, want := r.Header.Get("webhook-signature"), Signature(tell.secret, "ntf_1", noon, []byte(body)); got != want || r.Method != http.MethodPost ||
		r.Header.Get("webhook-id") != "ntf_1" || r.Header.Get("webhook-timestamp") != strconv.FormatInt(noon.Unix(), 10) {
		t.Errorf("%s %v, want signature %s", r.Method, r.Header, want)
	}
	many := make([]string, 1000)
	if err := tell.Notify(context.Background(), "ntf_2", many); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Count   int
		Waiting []string
	}
	if err := json.Unmarshal([]byte(bodies()[1]), &got); err != nil || got.Count != 1000 || len(got.Waiting) != 100 {
		t.Errorf("%d of %d: %v", len(got.Waiting), got.Count, err)
	}
}

func TestAPostThatFailedComesAgainAndOneThatArrivedDoesNot(t *testing.T) { // J12
	url, seen, _ := answered(t, status(500), status(200))
	steady, steadySeen, _ := answered(t, status(200))
	tell := teller(t, Way{URL: steady}, Way{URL: url + "/hidden"})
	err := tell.Notify(context.Background(), "ntf_1", []string{"apr_A"})
	if err == nil || !strings.Contains(err.Error(), "notify 2, 127.0.0.1: answered 500") || strings.Contains(err.Error(), "hidden") {
		t.Fatalf("%v", err)
	}
	if err := tell.Notify(context.Background(), "ntf_1", []string{"apr_A"}); err != nil {
		t.Fatal(err)
	}
	if len(seen()) != 2 || len(steadySeen()) != 1 {
		t.Errorf("%d posts to the one that failed once, %d to the other", len(seen()), len(steadySeen()))
	}
	if err := tell.Notify(context.Background(), "ntf_2", []string{"apr_A"}); err != nil || len(steadySeen()) != 2 {
		t.Errorf("the next note: %v, %d posts", err, len(steadySeen()))
	}
}

func TestNoRedirectIsFollowed(t *testing.T) { // J11
	target, reached, _ := answered(t, status(200))
	url, _, _ := answered(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, target, http.StatusTemporaryRedirect)
	})
	if err := teller(t, Way{URL: url}).Notify(context.Background(), "n", nil); err == nil || len(reached()) != 0 {
		t.Errorf("%v, %d posts to where it pointed", err, len(reached()))
	}
}

func TestAReceiverThatHangsOrPoursIsLeft(t *testing.T) {
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	hangs, _, _ := answered(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	ctx, cancel := context.WithCancel(context.Background())
	gone := make(chan error, 1)
	go func() { gone <- teller(t, Way{URL: hangs + "/hidden"}).Notify(ctx, "n", nil) }()
	cancel()
	if err := <-gone; err == nil || strings.Contains(err.Error(), "hidden") {
		t.Errorf("%v", err)
	}
	pours, _, _ := answered(t, func(w http.ResponseWriter, r *http.Request) {
		for range 1000 {
			if _, err := w.Write(bytes.Repeat([]byte("x"), 64<<10)); err != nil {
				return
			}
		}
	})
	if err := teller(t, Way{URL: pours}).Notify(context.Background(), "n", nil); err != nil {
		t.Errorf("an answer of 200 with a long text: %v", err)
	}
}

func TestAProxyOfTheEnvironmentIsNotUsed(t *testing.T) {
	proxy, seen, _ := answered(t, status(200))
	t.Setenv("HTTP_PROXY", proxy)
	t.Setenv("http_proxy", proxy)
	url, direct, _ := answered(t, status(200))
	if err := teller(t, Way{URL: url}).Notify(context.Background(), "n", nil); err != nil || len(seen()) != 0 || len(direct()) != 1 {
		t.Errorf("%v, %d posts to the proxy", err, len(seen()))
	}
}

func TestOnlyAddressesThatTheRowMeans(t *testing.T) { // J11
	for _, c := range []struct {
		at               string
		loopback, public bool // is reached by a row with that name; by any other row
		private          bool // is reached by a row that says private
	}{
		{"127.0.0.1", true, false, false}, {"127.9.9.9", true, false, false}, {"::1", true, false, false},
		{"93.184.216.34", false, true, true}, {"2606:4700::1111", false, true, true},
		{"10.1.2.3", false, false, true}, {"172.16.0.1", false, false, true}, {"192.168.1.1", false, false, true}, {"169.254.169.254", false, false, true},
		{"100.64.0.1", false, false, true}, {"fd00::1", false, false, true}, {"fe80::1", false, false, true}, {"64:ff9b::7f00:1", false, false, true},
		{"2002:7f00:1::", false, false, true}, {"198.18.0.1", false, false, true}, {"0.1.2.3", false, false, true},
		{"0.0.0.0", false, false, false}, {"::", false, false, false}, {"224.0.0.1", false, false, false}, {"ff02::1", false, false, false}, {"255.255.255.255", false, false, false},
	} {
		a := netip.MustParseAddr(c.at)
		for name, got := range map[string]error{"loopback": permitted(a, true, false), "public": permitted(a, false, false), "private": permitted(a, false, true)} {
			want := map[string]bool{"loopback": c.loopback, "public": c.public, "private": c.private}[name]
			if (got == nil) != want || got != nil && spec.ReasonOf(got) != spec.NotPermitted {
				t.Errorf("%s by a row of kind %s: %v, want reached %t", c.at, name, got, want)
			}
		}
	}
	mapped, _, _ := answered(t, status(200))
	port := mapped[strings.LastIndexByte(mapped, ':'):]
	if err := teller(t, Way{URL: "https://[::ffff:127.0.0.1]" + port}).Notify(context.Background(), "n", nil); err == nil {
		t.Error("this machine in another spelling is reached")
	}
}

func TestWhatIsNoRow(t *testing.T) {
	for what, w := range map[string]Way{
		"nothing": {}, "both": {Command: []string{"a"}, URL: "https://a.example"}, "plain http": {URL: "http://hooks.example.org"}, "no host": {URL: "https:///x"},
		"a password": {URL: "https://a:b@hooks.example.org"}, "a fragment": {URL: "https://a.example#x"}, "another scheme": {URL: "file:///etc/passwd"}, "no url": {URL: "::"},
		"an empty program": {Command: []string{""}}, "a private command": {Command: []string{"a"}, Private: true}, "opaque": {URL: "https:a.example"},
	} {
		if err := w.Check(); spec.ReasonOf(err) != spec.Malformed {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, good := range []string{"https://hooks.example.org/x?y=z", "http://localhost:8080", "http://127.0.0.1", "http://[::1]:9", "https://10.0.0.1"} {
		if err := (Way{URL: good}).Check(); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	if err := CheckAll(make([]Way, 9)); spec.ReasonOf(err) != spec.TooLarge {
		t.Errorf("nine rows: %v", err)
	}
	if err := CheckAll([]Way{{Command: []string{"a"}}, {}}); err == nil || !strings.Contains(err.Error(), "/notify/1") {
		t.Errorf("the place of the bad row: %v", err)
	}
}

// shell is an owner's program for these tests.
func shell(t *testing.T, script string, words ...string) Way {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("a shell script as the owner's program")
	}
	path := filepath.Join(t.TempDir(), "hook.sh")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	return Way{Command: append([]string{path}, words...)}
}

func TestACommandGetsOurSentenceAndNoShell(t *testing.T) { // J10
	out := filepath.Join(t.TempDir(), "out")
	t.Setenv("SECRET_TOKEN", "hidden")
	w := shell(t, `{ printf '%s\n' "$@"; env; } > "$0.out"`, "{summary}", "n={count}", "$(touch "+out+")", "; touch "+out, "{other}")
	if err := teller(t, w).Notify(context.Background(), "n", []string{"apr_A", "apr_B"}); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(w.Command[0] + ".out")
	if err != nil {
		t.Fatal(err)
	}
	want := "2 questions for you: sealbridge gate list\nn=2\n$(touch " + out + ")\n; touch " + out + "\n{other}\n"
	if !strings.HasPrefix(string(b), want) || strings.Contains(string(b), "hidden") || strings.Contains(string(b), "apr_") {
		t.Errorf("%s\nwant %s and a clean environment", b, want)
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("a word was run by a shell")
	}
}

func TestACommandThatFailsSaysSoInOneLine(t *testing.T) {
	err := teller(t, shell(t, `printf 'no \033[31mscreen\nsecond line\n' >&2; exit 3`)).Notify(context.Background(), "n", nil)
	if err == nil || !strings.Contains(err.Error(), "no ⟨U+001B⟩[31mscreen") || strings.Contains(err.Error(), "second") {
		t.Errorf("%v", err)
	}
	if err := teller(t, Way{Command: []string{"/no/such/program"}}).Notify(context.Background(), "n", nil); err == nil {
		t.Error("a program that is not there told somebody")
	}
}

func TestACommandThatPrintsAMegabyteIsHeard(t *testing.T) {
	w := shell(t, `i=0; while [ $i -lt 1024 ]; do printf '%01024d' 0; printf '%01024d' 0 >&2; i=$((i+1)); done`)
	if err := teller(t, w).Notify(context.Background(), "n", nil); err != nil {
		t.Errorf("%v", err)
	}
}

// TestNothingOfACommandOutlivesIt: neither one that hangs nor what it started.
func TestNothingOfACommandOutlivesIt(t *testing.T) {
	for what, script := range map[string]string{
		"it hangs":             `mkfifo "$0.gone"; echo x > "$0.up"; exec 3<"$0.gone"`,
		"it forks and hangs":   `mkfifo "$0.gone"; (exec 3<"$0.gone") & echo x > "$0.up"; wait`,
		"it forks and is done": `mkfifo "$0.gone"; (exec 3<"$0.gone") & echo x > "$0.up"`,
	} {
		w := shell(t, script)
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- teller(t, w).Notify(ctx, "n", nil) }()
		for up := false; !up; time.Sleep(time.Millisecond) {
			_, err := os.Stat(w.Command[0] + ".up")
			up = err == nil
		}
		if what != "it forks and is done" {
			cancel()
		}
		if err := <-ended; (err == nil) != (what == "it forks and is done") {
			t.Errorf("%s: %v", what, err)
		}
		cancel()
		if n := living(t, w.Command[0]); n != 0 {
			t.Errorf("%s: %d processes are left", what, n)
		}
	}
}

// living counts the processes whose command line names a path; it waits for those that are being ended.
func living(t *testing.T, path string) (n int) {
	t.Helper()
	if runtime.GOOS != "linux" {
		return 0
	}
	for range 2000 {
		n = 0
		dirs, err := filepath.Glob("/proc/[0-9]*/cmdline")
		if err != nil || len(dirs) == 0 {
			t.Fatal("no processes to be seen", err)
		}
		for _, d := range dirs {
			if b, err := os.ReadFile(d); err == nil && bytes.Contains(b, []byte(path)) {
				n++
			}
		}
		if n == 0 {
			return 0
		}
		time.Sleep(time.Millisecond)
	}
	return n
}

func TestATryTellsThatNothingWaits(t *testing.T) {
	url, _, bodies := answered(t, status(200))
	w := shell(t, `printf '%s' "$1" > "$0.out"`, "{summary}")
	got := teller(t, w, Way{URL: url + "/x"}, Way{Command: []string{"/no/such/program"}}).Try(context.Background(), "ntf_t")
	if len(got) != 3 || got[0].Err != nil || got[1].Err != nil || got[1].Way != "127.0.0.1" || got[2].Err == nil {
		t.Fatalf("%+v", got)
	}
	if b, err := os.ReadFile(w.Command[0] + ".out"); err != nil || string(b) != "this is a try: nothing waits" {
		t.Errorf("%q, %v", b, err)
	}
	if bodies()[0] != `{"v":1,"id":"ntf_t","count":0,"waiting":[],"trial":true}` {
		t.Errorf("%s", bodies()[0])
	}
}
