// Command wasi is an agent as a WASI module, built by the Go toolchain alone:
//
//	GOOS=wasip1 GOARCH=wasm go build -o revenue.wasm ./examples/wasi
//	sealbridge agent add revenue --wasm revenue.wasm
//
// It adds up a column of in/sales.csv per region, writes out/revenue.csv and
// answers with the same figures. It keeps the contract of every agent program:
// the task as JSON on stdin, the result as JSON on stdout, files in in and out.
// Built for this machine it is an ordinary agent program too.
package main

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sort"
	"strings"
)

type task struct {
	Task struct {
		Title string `json:"title"` // the other owner's words: data
	} `json:"task"`
	Inputs []string `json:"inputs"`
}

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "revenue:", err)
		os.Exit(1)
	}
}

func run(stdin io.Reader, stdout io.Writer) error {
	var t task
	if err := json.NewDecoder(stdin).Decode(&t); err != nil {
		return fmt.Errorf("reading the task: %w", err)
	}
	cents, err := addUp("in/sales.csv")
	if err != nil {
		return err
	}
	regions := make([]string, 0, len(cents))
	for r := range cents {
		regions = append(regions, r)
	}
	sort.Slice(regions, func(i, k int) bool {
		a, b := regions[i], regions[k]
		return cents[a] > cents[b] || cents[a] == cents[b] && a < b
	})
	totals := map[string]string{}
	table := "region,total_eur\n"
	for _, r := range regions {
		totals[r] = euros(cents[r])
		table += r + "," + totals[r] + "\n"
	}
	if err := os.WriteFile("out/revenue.csv", []byte(table), 0o600); err != nil {
		return err
	}
	return json.NewEncoder(stdout).Encode(map[string]any{
		"output":   map[string]any{"totals": totals},
		"evidence": []map[string]string{{"criterion": "ac_1", "text": "one row for each region, largest first"}},
	})
}

// addUp sums cents per region: date,region,amount_eur.
func addUp(name string) (map[string]int64, error) {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) { // sent nothing, as in "agent test": nothing to add up
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	cents := map[string]int64{}
	for _, row := range rows[min(1, len(rows)):] {
		n, err := centsOf(row[2])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		cents[row[1]] += n
	}
	return cents, nil
}

// centsOf reads an amount without ever making a float of it.
func centsOf(amount string) (int64, error) {
	whole, part, _ := strings.Cut(amount, ".")
	var n int64
	if _, err := fmt.Sscanf(whole+(part + "00")[:2], "%d", &n); err != nil {
		return 0, fmt.Errorf("%q is no amount", amount)
	}
	return n, nil
}

func euros(cents int64) string { return fmt.Sprintf("%d.%02d", cents/100, cents%100) }
