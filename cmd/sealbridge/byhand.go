package main

import (
	"github.com/spf13/cobra"

	"sealbridge/manifest"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
)

var (
	_ = register(canonicalizeCommand)
	_ = register(digestCommand)
)

// maxText is what canonicalize and digest read; the reader's own limits (D1)
// hold within it.
const maxText = 1 << 20

// readText reads one JSON text of any layout; "-" is stdin.
func (a *app) readText(path string) (jcs.Value, error) {
	b, err := readFile(a, path, maxText)
	if err != nil {
		return jcs.Value{}, err
	}
	return jcs.Canonicalize(b)
}

func canonicalizeCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "canonicalize FILE",
		GroupID: "hand",
		Short:   "write the canonical bytes of a JSON text (RFC 8785), and nothing else",
		Example: "  sealbridge canonicalize draft.json > draft.jcs\n  sealbridge canonicalize - < draft.json",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			v, err := a.readText(args[0])
			if err != nil {
				return err
			}
			_, err = a.out.Write(v.Bytes())
			return err
		},
	}
}

func digestCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "digest FILE",
		GroupID: "hand",
		Short:   "say the digest by which other documents name this one",
		Long: "A contract is named by the digest of its payload without its signatures (S2),\n" +
			"every other document by that of its whole canonical bytes (S8).",
		Example: "  sealbridge digest manifest.json",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			v, err := a.readText(args[0])
			if err != nil {
				return err
			}
			d, over := digestOf(v)
			if a.json {
				return a.emit(map[string]string{"digest": d.String(), "over": over})
			}
			a.print("%s\n", d)
			return nil
		},
	}
}

// digestOf is S8: a contract by what both sides signed, all else by its whole bytes.
func digestOf(v jcs.Value) (d signing.Digest, over string) {
	if _, typed := v.Member("type"); !typed {
		if bare := v.Without("signatures"); isManifest(bare) {
			return signing.DigestOf(bare.Bytes()), "manifest without signatures"
		}
	}
	return signing.DigestOf(v.Bytes()), "document"
}

func isManifest(v jcs.Value) bool {
	_, task := v.Member("taskId")
	_, version := v.Member("protocolVersion")
	_, err := manifest.ReadManifest(v)
	return err == nil || task && version
}
