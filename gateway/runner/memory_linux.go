package runner

import (
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// totalMemory is what all processes of a run may take together: no more than
// DefaultTotal, and never so much that the machine is left without.
func totalMemory() int64 {
	var s unix.Sysinfo_t
	if unix.Sysinfo(&s) != nil {
		return DefaultTotal
	}
	return min(DefaultTotal, int64(s.Totalram)*int64(s.Unit)/4*3)
}

// resident is what processes hold in memory. What several share is counted for
// each of them first, which is cheap, and shared out only where that seems too
// much.
func resident(pids []int, limit int64) (sum int64) {
	for _, pid := range pids {
		sum += rss(pid)
	}
	if sum <= limit {
		return sum
	}
	sum = 0
	for _, pid := range pids {
		if share, ok := pss(pid); ok {
			sum += share
		} else {
			sum += rss(pid)
		}
	}
	return sum
}

func rss(pid int) int64 {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
	fields := bytes.Fields(b)
	if err != nil || len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(string(fields[1]), 10, 64)
	return pages * int64(os.Getpagesize())
}

// pss is a process's share of its memory.
func pss(pid int) (int64, bool) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/smaps_rollup")
	_, rest, ok := bytes.Cut(b, []byte("\nPss:"))
	fields := bytes.Fields(rest)
	if err != nil || !ok || len(fields) == 0 {
		return 0, false
	}
	kib, err := strconv.ParseInt(string(fields[0]), 10, 64)
	return kib << 10, err == nil
}
