package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

var _ = register(benchCommand)

// bar is one thing that this command measures and what it is held against.
type bar struct {
	name  string // as it is typed
	about string
	run   func(ctx context.Context, dir string, d time.Duration) ([]figure, error)
}

// figure is one measured value.
type figure struct {
	Bar     string  `json:"bar"`
	Work    string  `json:"work"`
	Value   float64 `json:"value"`
	Unit    string  `json:"unit"` // ×, ms, µs/KiB, per second
	Limit   float64 `json:"limit"`
	AtLeast bool    `json:"atLeast"` // the limit is a floor; else it is a ceiling
	Met     bool    `json:"met"`
	Detail  string  `json:"detail"`
}

func (f figure) judged() figure {
	f.Met = f.Value <= f.Limit
	if f.AtLeast {
		f.Met = f.Value >= f.Limit
	}
	return f
}

// machine is where the figures were taken: an absolute one says nothing without it.
type machine struct {
	Platform   string `json:"platform"`
	Processors int    `json:"processors"`
	Go         string `json:"go"`
}

func benchCommand(a *app) *cobra.Command {
	var each time.Duration
	c := &cobra.Command{
		Use: "bench [NAME…]", GroupID: "hand", Short: "measure this machine against the bars, ratios first",
		Long: "Each figure is taken beside its yardstick, a few milliseconds of the one and of the\n" +
			"other in turn, so that a busy machine slows both: trust ratios before times.\n" +
			"Exit 0 says that every bar was met, 1 that one was not.\n\n" + barList(),
		Example: "  sealbridge bench\n  sealbridge bench s1 s8 --time 10s",
		Args:    cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if each <= 0 {
				return usage("--time takes a length such as 2s")
			}
			chosen, err := chooseBars(args)
			if err != nil {
				return err
			}
			return a.bench(c.Context(), chosen, each)
		},
	}
	c.Flags().DurationVar(&each, "time", 2*time.Second, "how long each figure is measured")
	return c
}

func barList() string {
	var b strings.Builder
	for _, x := range bars {
		fmt.Fprintf(&b, "  %-5s %s\n", x.name, x.about)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func chooseBars(names []string) (chosen []bar, err error) {
	for _, n := range names {
		if !slices.ContainsFunc(bars, func(b bar) bool { return b.name == strings.ToLower(n) }) {
			return nil, hint(usage("no bar named "+n), "sealbridge bench --help lists them")
		}
	}
	for _, b := range bars {
		if len(names) == 0 || slices.ContainsFunc(names, func(n string) bool { return strings.ToLower(n) == b.name }) {
			chosen = append(chosen, b)
		}
	}
	return chosen, nil
}

func (a *app) bench(ctx context.Context, chosen []bar, each time.Duration) error {
	dir, err := os.MkdirTemp("", "sealbridge-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	on := machine{runtime.GOOS + "/" + runtime.GOARCH, runtime.GOMAXPROCS(0), runtime.Version()}
	if !a.json {
		a.print("%s, %s, %s\n\n", on.Platform, plural(on.Processors, "processor"), on.Go)
	}
	all := []figure{}
	for _, b := range chosen {
		done := a.working("measuring " + b.about)
		fs, err := b.run(ctx, dir, each)
		done()
		if err != nil {
			return fmt.Errorf("measuring %s: %w", b.name, err)
		}
		for _, f := range fs {
			f = f.judged()
			all = append(all, f)
			if !a.json {
				a.printFigure(f)
			}
		}
	}
	missed := 0
	for _, f := range all {
		if !f.Met {
			missed++
		}
	}
	if a.json {
		err = a.emit(map[string]any{"machine": on, "figures": all, "met": missed == 0})
	} else {
		a.print("\n%d of %s met\n", len(all)-missed, plural(len(all), "bar"))
	}
	if err == nil && missed > 0 {
		return errNo
	}
	return err
}

func (a *app) printFigure(f figure) {
	sign, word := "at most", a.paint("32", "met")
	if f.AtLeast {
		sign = "at least"
	}
	if !f.Met {
		word = a.paint("31", "NOT met")
	}
	unit := f.Unit
	if unit == "×" {
		unit = "times"
	}
	a.print("%-5s %-52s %9s %-10s %s %s: %s\n", f.Bar, f.Work, number(f.Value), unit, sign, number(f.Limit), word)
	a.print("      %s\n", f.Detail)
}

// number has three digits that say something, and no more.
func number(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

func micros(d time.Duration) string { return number(float64(d.Nanoseconds())/1e3) + " µs" }
