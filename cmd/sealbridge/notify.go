package main

import (
	"crypto/rand"
	"time"

	"github.com/spf13/cobra"

	"sealbridge/gateway/home"
	"sealbridge/gateway/notify"
	"sealbridge/manifest"
	"sealbridge/spec"
)

var _ = register(notifyCommand)

func notifyCommand(a *app) *cobra.Command {
	c := &cobra.Command{Use: "notify", GroupID: "gates", Short: "how you are told that something waits", Example: "  sealbridge notify test"}
	c.AddCommand(
		&cobra.Command{Use: "test", Short: "run every command and post to every address of notify: in config.yaml", Example: "  sealbridge notify test", RunE: func(c *cobra.Command, _ []string) error {
			return a.notifyTest(c)
		}},
		&cobra.Command{Use: "secret", Short: "print the secret that signs the posts, for whoever receives them", Example: "  sealbridge notify secret", RunE: func(*cobra.Command, []string) error {
			h, err := home.Read(a.home)
			if err != nil {
				return err
			}
			s, err := h.NotifySecret(rand.Reader)
			if err != nil {
				return err
			}
			if a.json {
				return a.emit(map[string]string{"secret": s})
			}
			a.print("%s\n", s)
			return nil
		}},
	)
	return c
}

func (a *app) notifyTest(c *cobra.Command) error {
	h, err := home.Read(a.home)
	if err != nil {
		return err
	}
	if len(h.Config.Notify) == 0 {
		return hint(spec.Refuse(spec.NotFound, "/notify", "nobody is told"), `notify: [{command: [notify-send, Sealbridge, "{summary}"]}] in config.yaml`)
	}
	t, err := tellerOf(h)
	if err != nil {
		return err
	}
	type row struct {
		Way   string `json:"way"`
		OK    bool   `json:"ok"`
		Error string `json:"error,omitempty"`
	}
	var rows []row
	failed := false
	id := manifest.DerivedID("ntf_", "trial", a.now().Format(time.RFC3339Nano))
	for _, r := range t.Try(c.Context(), id) {
		out := row{Way: r.Way, OK: r.Err == nil}
		if r.Err != nil {
			failed, out.Error = true, r.Err.Error()
		}
		rows = append(rows, out)
		if !a.json && r.Err == nil {
			a.print("ok    %s\n", manifest.Display(r.Way, 80))
		} else if !a.json {
			a.print("look  %s\n", manifest.Display(out.Error, 400))
		}
	}
	if a.json {
		if err := a.emit(rows); err != nil {
			return err
		}
	}
	if failed {
		return errNo
	}
	return nil
}

// waysOf are the rows of notify: as the teller reads them.
func waysOf(h *home.Home) []notify.Way {
	out := make([]notify.Way, len(h.Config.Notify))
	for i, n := range h.Config.Notify {
		out[i] = notify.Way{Command: n.Command, URL: n.URL, Private: n.Private}
	}
	return out
}

func tellerOf(h *home.Home) (*notify.Teller, error) {
	text, err := h.NotifySecret(rand.Reader)
	if err != nil {
		return nil, err
	}
	secret, err := notify.ParseSecret(text)
	if err != nil {
		return nil, err
	}
	t := notify.New(secret, time.Now)
	return t, t.Use(waysOf(h))
}
