package main

import (
	"cmp"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"sealbridge/gateway/home"
	"sealbridge/manifest"
	"sealbridge/spec"
)

var _ = register(modelCommand)

func modelCommand(a *app) *cobra.Command {
	c := &cobra.Command{Use: "model", GroupID: "agents", Short: "providers of models that your agents may call through this gateway", Example: "  sealbridge model add anthropic --key-file anthropic.key --model 'claude-*'"}
	c.AddCommand(modelAdd(a), modelList(a), modelRemove(a))
	return c
}

func modelAdd(a *app) *cobra.Command {
	var m home.Model
	c := &cobra.Command{
		Use: "add NAME", Short: "add a provider, with a key that agents never get", Args: cobra.ExactArgs(1),
		Long: "An agent with --model door calls it through this gateway, which adds the key, counts tokens and stops at the budget.\n" +
			"The key stays in a file with mode 0600, or in a variable of the environment in which the gateway runs.",
		Example: "  sealbridge model add anthropic --key-file anthropic.key --model 'claude-*'\n  sealbridge model add local --kind openai --url http://127.0.0.1:11434/v1 --model qwen3",
		RunE: func(c *cobra.Command, args []string) error {
			h, err := home.Read(a.home)
			if err != nil {
				return err
			}
			name := args[0]
			if err := shortName(name); err != nil {
				return err
			}
			if _, there := h.Config.Models[name]; there {
				return spec.Refuse(spec.Conflict, "", "a provider "+name+" is there already: sealbridge model remove "+name)
			}
			m.Kind = cmp.Or(m.Kind, name)
			if m.KeyFile != "" && m.KeyEnv == "" {
				if m.KeyFile, err = filepath.Abs(m.KeyFile); err != nil {
					return err
				}
				if _, err := m.Key(a.home); err != nil { // a variable may be set for the gateway alone
					return hint(err, "chmod 600 FILE")
				}
			}
			if err := home.SetModel(a.home, name, &m); err != nil {
				return err
			}
			if a.json {
				return a.emit(map[string]any{"name": name, "model": m})
			}
			a.print("%s added: %s. An agent that calls it:\n  sealbridge agent add coder --preset claude-code\n  sealbridge agent add NAME --model door --provider %s -- COMMAND…\n", name, m.Host(), name)
			return nil
		},
	}
	c.Flags().StringVar(&m.Kind, "kind", "", "anthropic or openai: the form of its API; without it the name")
	c.Flags().StringVar(&m.URL, "url", "", "https://…, or http:// on loopback; without it the provider's own")
	c.Flags().StringVar(&m.KeyFile, "key-file", "", "a file with the key, mode 0600")
	c.Flags().StringVar(&m.KeyEnv, "key-env", "", "a variable that has the key where the gateway runs")
	c.Flags().StringArrayVar(&m.Models, "model", nil, "a model that agents may use; a star at the end stands for any ending")
	return c
}

func modelList(a *app) *cobra.Command {
	return &cobra.Command{Use: "list", Aliases: []string{"show"}, Short: "list the providers", Example: "  sealbridge model list", RunE: func(*cobra.Command, []string) error {
		h, err := home.Read(a.home)
		if err != nil {
			return err
		}
		if a.json {
			return a.emit(h.Config.Models)
		}
		if len(h.Config.Models) == 0 {
			a.print("no providers yet: sealbridge model add anthropic --key-file FILE --model 'claude-*'\n")
		}
		for _, n := range slices.Sorted(maps.Keys(h.Config.Models)) {
			m := h.Config.Models[n]
			_, key := keyStands(a.home, m)
			a.print("%-12s %s (%s), %s; %s\n", n, m.Host(), m.Kind, strings.Join(m.Models, " "), key)
		}
		return nil
	}}
}

func modelRemove(a *app) *cobra.Command {
	return &cobra.Command{Use: "remove NAME", Short: "take a provider away", Example: "  sealbridge model remove anthropic", Args: cobra.ExactArgs(1), RunE: func(_ *cobra.Command, args []string) error {
		h, err := home.Read(a.home)
		if err != nil {
			return err
		}
		if _, ok := h.Config.Models[args[0]]; !ok {
			return spec.Refuse(spec.NotFound, "", "no provider is called "+manifest.Display(args[0], 40))
		}
		if err := home.SetModel(a.home, args[0], nil); err != nil {
			return hint(err, "an agent names it: sealbridge agent list")
		}
		a.print("%s removed; the key's file is yours and stays\n", args[0])
		return nil
	}}
}

// keyStands says where a provider's key is, and whether it can be read. A
// variable is the gateway's: nobody else can look.
func keyStands(dir string, m home.Model) (ok bool, text string) {
	switch {
	case m.KeyEnv != "":
		return true, "key in $" + m.KeyEnv + " where the gateway runs"
	case m.KeyFile == "":
		return true, "no key"
	}
	if _, err := m.Key(dir); err != nil {
		return false, "the key cannot be read: " + err.Error()
	}
	return true, "key in " + m.KeyFile
}

// modelsStand are doctor's lines on providers: without its key every call of an agent is refused.
func modelsStand(h *home.Home) (fs []finding) {
	for _, n := range slices.Sorted(maps.Keys(h.Config.Models)) {
		m := h.Config.Models[n]
		ok, key := keyStands(h.Dir, m)
		fs = append(fs, finding{"model", ok, n + " (" + m.Host() + "): " + key})
	}
	return fs
}
