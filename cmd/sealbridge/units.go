package main

import (
	"fmt"
	"strconv"
	"strings"

	"sealbridge/spec"
)

// bytesOf is a size for people, in powers of ten as disks are sold.
func bytesOf(n int64) string {
	units := []struct {
		size int64
		name string
	}{{1e12, "TB"}, {1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}}
	for _, u := range units {
		if n >= u.size {
			return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(n)/float64(u.size)), ".0") + " " + u.name
		}
	}
	return fmt.Sprintf("%d B", n)
}

// parseBytes reads 812, 64kB, 64MB, 40GB or 1TB.
func parseBytes(s string) (int64, error) {
	digits := strings.TrimRight(s, "kMGTB")
	unit, ok := map[string]int64{"": 1, "B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}[s[len(digits):]]
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || !ok || n < 0 || n > 1e15/unit {
		return 0, spec.Refuse(spec.Malformed, "", "a size: 64kB, 64MB, 2GB")
	}
	return n * unit, nil
}
