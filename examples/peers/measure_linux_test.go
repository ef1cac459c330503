package peers

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"sort"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"
	"unsafe"

	"sealbridge/policy"
)

var measure = flag.Bool("measure", false, "print the table of the README")

// spent is the processor time of this thread: what other programs do meanwhile is not in it.
func spent() time.Duration {
	const thread = 3 // CLOCK_THREAD_CPUTIME_ID
	var at syscall.Timespec
	if _, _, no := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, thread, uintptr(unsafe.Pointer(&at)), 0); no != 0 {
		panic(no)
	}
	return time.Duration(at.Nano())
}

// TestMeasure takes the contenders in turn, in rounds, and prints for each the
// tenth percentile of what a verification costs, since whoever else uses the
// machine only adds, and as a multiple of raw signatures.
func TestMeasure(t *testing.T) {
	if !*measure {
		t.Log("go test -run TestMeasure -measure -v prints the table")
		return
	}
	runtime.LockOSThread()
	runtime.GOMAXPROCS(1) // the collector's work is its owner's
	w := tabwriter.NewWriter(os.Stdout, 2, 0, 2, ' ', 0)
	fmt.Fprintln(w, "chain and call\traw\tSealbridge\tseen before\tBiscuit\tUCAN\t")
	for _, links := range lengths {
		cs := all(t, links)
		seen := *cs["sealbridge"].(*Sealbridge)
		seen.Seen = policy.NewChains()
		fmt.Fprintln(w, row(t, links, NewRaw(links+1).Verify, cs["sealbridge"].Verify, seen.Verify, cs["biscuit"].Verify, cs["ucan"].Verify))
	}
	fmt.Fprintln(w, "chain alone\traw\tSealbridge\tseen before\t")
	for _, links := range lengths {
		s := *all(t, links)["sealbridge"].(*Sealbridge)
		seen := s
		seen.Seen = policy.NewChains()
		fmt.Fprintln(w, row(t, links, NewRaw(links).Verify, s.VerifyChain, seen.VerifyChain))
	}
	w.Flush()
}

// row measures what is beside each other in turn; the first is the floor.
func row(t *testing.T, links int, order ...func() error) string {
	t.Helper()
	took := make([][]float64, len(order))
	const rounds, each = 61, 4
	for range rounds {
		for i, verify := range order {
			from := spent()
			for range each {
				if err := verify(); err != nil {
					t.Fatal(err)
				}
			}
			took[i] = append(took[i], float64(spent()-from)/each/1000)
		}
	}
	line := fmt.Sprint(links)
	for i := range order {
		sort.Float64s(took[i])
		line += fmt.Sprintf("\t%.1f µs (%.2f)", took[i][rounds/10], took[i][rounds/10]/took[0][rounds/10])
	}
	return line
}
