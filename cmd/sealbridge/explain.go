package main

import (
	"github.com/spf13/cobra"

	"sealbridge/spec"
)

var _ = register(explainCommand)

func explainCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "explain CODE|RULE",
		GroupID: "check",
		Short:   "quote the spec for a word of an error or the number of a rule, offline",
		Example: "  sealbridge explain bad-digest\n  sealbridge explain H1",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			title, text, ok := spec.Explain(args[0])
			if !ok {
				return hint(spec.Refuse(spec.NotFound, "", "no word and no rule "+args[0]), "words are like bad-digest, rules like H1")
			}
			if a.json {
				return a.emit(map[string]string{"name": args[0], "title": title, "text": text})
			}
			a.print("%s\n\n%s\n", a.paint("1", title), fold(text, a.width()))
			return nil
		},
	}
}
