package main

import (
	"github.com/spf13/cobra"

	"sealbridge/spec"
)

var _ = register(schemaCommand)

func schemaCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:               "schema [NAME]",
		GroupID:           "hand",
		Short:             "list the JSON Schemas of the documents, or print one",
		Example:           "  sealbridge schema task-manifest",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: cobra.FixedCompletions(spec.SchemaNames(), cobra.ShellCompDirectiveNoFileComp),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 1 {
				b, ok := spec.Schema(args[0])
				if !ok {
					return hint(spec.Refuse(spec.NotFound, "", "no schema "+args[0]), "`sealbridge schema` lists them")
				}
				_, err := a.out.Write(b)
				return err
			}
			names := spec.SchemaNames()
			if a.json {
				return a.emit(names)
			}
			for _, name := range names {
				a.print("%s\n", name)
			}
			return nil
		},
	}
}
