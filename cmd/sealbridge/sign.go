package main

import (
	"time"

	"github.com/spf13/cobra"

	"sealbridge/gateway/home"
	"sealbridge/manifest"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

var _ = register(signCommand)

func signCommand(a *app) *cobra.Command {
	var as string
	var owner bool
	c := &cobra.Command{
		Use:     "sign FILE --as TYPE|requester|worker",
		GroupID: "hand",
		Short:   "sign one document by hand with this gateway's key",
		Long: "The signed document goes to stdout in canonical form. A document that no gateway\n" +
			"would read is not signed. requester and worker sign a contract and keep the other\n" +
			"side's signature.",
		Example: "  sealbridge sign revocation.json --as revocation --owner\n  sealbridge sign manifest.json --as requester",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			v, err := a.readText(args[0])
			if err != nil {
				return err
			}
			by, err := a.handSigner(owner)
			if err != nil {
				return err
			}
			signed, err := signAs(v, as, by, a.now())
			if err != nil {
				return err
			}
			_, err = a.out.Write(append(signed.Bytes(), '\n'))
			return err
		},
	}
	c.Flags().StringVar(&as, "as", "", "requester, worker, or the document's type, such as revocation")
	c.Flags().BoolVar(&owner, "owner", false, "with the owner's key instead of the agent's")
	c.MarkFlagRequired("as") //nolint:errcheck // the flag is there
	return c
}

func (a *app) handSigner(owner bool) (signing.Signer, error) {
	h, err := home.Read(a.home)
	if err != nil || !owner {
		if err != nil {
			return nil, err
		}
		return h.Agent, nil
	}
	by, _, err := h.OwnerSigner(func() (string, error) { return a.passphrase("passphrase of the owner key: ") })
	return by, err
}

// signAs signs v and reads the outcome as any gateway would, before it is shown.
func signAs(v jcs.Value, as string, by signing.Signer, at time.Time) (jcs.Value, error) {
	var out jcs.Value
	var err error
	switch as {
	case "requester", "worker":
		out, err = signContract(v, as, by, at)
	default:
		out, err = signTyped(v, as, by, at)
	}
	if err != nil {
		return jcs.Value{}, err
	}
	if _, err := manifest.OpenValue(out, nil); err != nil {
		return jcs.Value{}, err
	}
	return out, nil
}

func signContract(v jcs.Value, as string, by signing.Signer, at time.Time) (jcs.Value, error) {
	pair, ok := v.Member("signatures")
	if !ok {
		pair = jcs.EmptyObject
	}
	role, name := signing.RequesterManifest, "requesterSignature"
	if as == "worker" {
		role, name = signing.WorkerManifest, "workerSignature"
	}
	if _, there := pair.Member(name); there {
		return jcs.Value{}, spec.Refuse(spec.Conflict, "/signatures/"+name, "signed already")
	}
	block, err := blockOf(v.Without("signatures"), role, by, at)
	if err != nil {
		return jcs.Value{}, err
	}
	return v.With("signatures", pair.With(name, block)), nil
}

func signTyped(v jcs.Value, as string, by signing.Signer, at time.Time) (jcs.Value, error) {
	if name := manifest.TypeName(v); name != as {
		return jcs.Value{}, spec.Refuse(spec.WrongContext, "/type", "the document is "+manifest.Display(name, 60)+", not "+as)
	}
	c, ok := signing.ContextFor("sealbridge/" + as)
	if !ok {
		return jcs.Value{}, spec.Refuse(spec.UnknownType, "/type", "S4")
	}
	if _, there := v.Member("signature"); there {
		return jcs.Value{}, spec.Refuse(spec.Conflict, "/signature", "signed already")
	}
	block, err := blockOf(v, c, by, at)
	if err != nil {
		return jcs.Value{}, err
	}
	return v.With("signature", block), nil
}

func blockOf(payload jcs.Value, c signing.Context, by signing.Signer, at time.Time) (jcs.Value, error) {
	b, err := signing.Sign(payload, c, by, at)
	if err != nil {
		return jcs.Value{}, err
	}
	return jcs.Encode(b)
}
