package approval

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"sealbridge/manifest"
)

func quoted(s string) string { return "“" + s + "”" }

// count is a figure as people write it: 200k, 2M, 1,234.
func count(n int64) string {
	switch {
	case n != 0 && n%1_000_000 == 0:
		return strconv.FormatInt(n/1_000_000, 10) + "M"
	case n >= 10_000 && n%1000 == 0:
		return strconv.FormatInt(n/1000, 10) + "k"
	}
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// span is a length of time in its two largest units: 23 h 58 m.
func span(d time.Duration) string {
	if d < 0 {
		d = 0
	}
	day, h, m, s := int64(d/(24*time.Hour)), int64(d/time.Hour)%24, int64(d/time.Minute)%60, int64(d/time.Second)%60
	two := func(a int64, x string, b int64, y string) string {
		if b == 0 {
			return fmt.Sprintf("%d %s", a, x)
		}
		return fmt.Sprintf("%d %s %d %s", a, x, b, y)
	}
	switch {
	case day > 0:
		return two(day, "d", h, "h")
	case h > 0:
		return two(h, "h", m, "m")
	case m > 0:
		return two(m, "m", s, "s")
	}
	return fmt.Sprintf("%d s", s)
}

// size is a number of bytes in units of a thousand: 49.1 kB.
func size(n int64) string {
	units := []string{"bytes", "kB", "MB", "GB"}
	f, i := float64(n), 0
	for ; f >= 1000 && i < len(units)-1; i++ {
		f /= 1000
	}
	if i == 0 {
		return count(n) + " bytes"
	}
	return strconv.FormatFloat(f, 'f', 1, 64) + " " + units[i]
}

func files(refs []manifest.ArtifactRef, tail string) string {
	if len(refs) == 0 {
		return "no files " + tail
	}
	total, word := int64(0), "files"
	for _, r := range refs {
		total += r.SizeBytes
	}
	if len(refs) == 1 {
		word = "file"
	}
	return fmt.Sprintf("%d %s %s, %s", len(refs), word, tail, size(total))
}

func moreFiles(now, before []manifest.ArtifactRef) bool {
	var a, b int64
	for _, r := range now {
		a += r.SizeBytes
	}
	for _, r := range before {
		b += r.SizeBytes
	}
	return len(now) > len(before) || a > b
}

func artifactNames(refs []manifest.ArtifactRef) string {
	names := make([]string, len(refs))
	for i, r := range refs {
		names[i] = fmt.Sprintf("%s (%s)", manifest.Display(r.Name, 120), size(r.SizeBytes))
	}
	return manifest.Display(strings.Join(names, ", "), maxNames)
}

func (w *words) names() string {
	if w.x.Offered == nil {
		return artifactNames(w.m.IO.InputArtifacts)
	}
	return manifest.Display(strings.Join(w.x.Offered, ", "), maxNames)
}

func meters(m manifest.Meters) string {
	return fmt.Sprintf("%s tokens in, %s out, %s tool calls, %s of work", count(m.InputTokens), count(m.OutputTokens),
		count(m.ToolInvocations), span(time.Duration(m.WallClockSeconds)*time.Second))
}

func wider(now, before manifest.Meters) bool {
	return now.InputTokens > before.InputTokens || now.OutputTokens > before.OutputTokens ||
		now.ToolInvocations > before.ToolInvocations || now.WallClockSeconds > before.WallClockSeconds
}

func payer(bearer string, side manifest.Role, who string) string {
	switch {
	case bearer == "bilateral_quota":
		return "each side pays its share"
	case bearer == "external_settlement_plugin":
		return "paid through a settlement outside Sealbridge"
	case side == manifest.Worker:
		return "you pay"
	}
	return who + " pays"
}
