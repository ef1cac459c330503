package main

import (
	"context"
	"os"
	"time"

	"github.com/spf13/cobra"

	"sealbridge/gateway"
	"sealbridge/gateway/home"
	"sealbridge/gateway/local"
	"sealbridge/manifest"
	"sealbridge/policy/approval"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// device is an approver's key elsewhere, with the certificate that it answers by.
type device struct{ key, certificate, out string }

func (d *device) flags(c *cobra.Command) {
	c.Flags().StringVar(&d.key, "as", "", "the key file of a certified device; ASK may then be a file of `gate export`")
	c.Flags().StringVar(&d.certificate, "certificate", "", "with --as: the certificate that `approver add -o` wrote")
	c.Flags().StringVarP(&d.out, "out", "o", "", "with --as: write the decision to a file for `gate send`")
}

// gateExport writes a question as it stands, for a device that no gateway runs on.
func gateExport(a *app) *cobra.Command {
	var out string
	c := &cobra.Command{Use: "export ASK -o FILE", Short: "write a question to a file, for a device to answer", Example: "  sealbridge gate export 7K2Q -o ask.json", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if out == "" {
				return usage("-o FILE")
			}
			_, cl, err := a.client()
			if err != nil {
				return err
			}
			v, err := findAsk(c.Context(), cl, args[0])
			if err != nil {
				return err
			}
			doc, err := v.Ask.Value()
			if err != nil {
				return err
			}
			return writeDocument(out, doc)
		}}
	c.Flags().StringVarP(&out, "out", "o", "", "a file")
	return c
}

// gateSend hands in a decision that was signed elsewhere.
func gateSend(a *app) *cobra.Command {
	return &cobra.Command{Use: "send FILE", Short: "hand in an answer that was signed elsewhere", Example: "  sealbridge gate send yes.json", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			v, err := a.readText(args[0])
			if err != nil {
				return err
			}
			_, cl, err := a.client()
			if err != nil {
				return err
			}
			out, err := local.Decide.Call(c.Context(), cl, gateway.Answer{Decision: v.String()})
			if err != nil {
				return err
			}
			return a.decidedAs(short(out.Ask), out)
		}}
}

// allowAs says yes with a device's key: to a question in a file, away from the
// gateway, or to one of the gateway here. What is signed is shown first.
func (a *app) allowAs(ctx context.Context, ref string, d device) error {
	if d.certificate == "" {
		return usage("--certificate FILE, as `approver add -o` wrote it")
	}
	ask, err := a.askToAnswer(ctx, ref)
	if err != nil {
		return err
	}
	cert, err := a.readCertificate(d.certificate)
	if err != nil {
		return err
	}
	a.note("%s", approval.Card(ask, a.now(), a.width(), time.Local))
	key, err := home.OpenKey(d.key, func() (string, error) { return a.passphrase("passphrase of this device's key ") })
	if err != nil {
		return err
	}
	yes := approval.By(approval.Decide(ask, approval.Allow, manifest.PresenceDevice, a.now()), cert)
	v, err := manifest.Sign(&yes, key, a.now())
	if err != nil {
		return err
	}
	if d.out != "" {
		return writeDocument(d.out, v.Wire())
	}
	_, cl, err := a.client()
	if err != nil {
		return hint(err, "-o FILE writes the answer; `sealbridge gate send FILE` hands it in where the gateway runs")
	}
	out, err := local.Decide.Call(ctx, cl, gateway.Answer{Decision: v.Wire().String()})
	if err != nil {
		return err
	}
	return a.decided(ask, out)
}

// askToAnswer is a question of a file, else one of the gateway here.
func (a *app) askToAnswer(ctx context.Context, ref string) (approval.Ask, error) {
	if _, err := os.Stat(ref); err == nil {
		v, err := a.readText(ref)
		if err != nil {
			return approval.Ask{}, err
		}
		return approval.Open(v)
	}
	_, cl, err := a.client()
	if err != nil {
		return approval.Ask{}, err
	}
	v, err := findAsk(ctx, cl, ref)
	return v.Ask, err
}

func (a *app) readCertificate(path string) (manifest.Signed, error) {
	v, err := a.readText(path)
	if err != nil {
		return manifest.Signed{}, err
	}
	s, err := manifest.OpenValue(v, (*signing.Keys)(nil))
	if err != nil {
		return s, err
	}
	if _, ok := s.Document().(*manifest.ApproverCertificate); !ok {
		return s, spec.Refuse(spec.UnknownType, path, "an approver-certificate")
	}
	return s, nil
}

func writeDocument(path string, doc jcs.Value) error {
	if err := os.WriteFile(path, append(doc.Bytes(), '\n'), 0o600); err != nil {
		return &spec.Error{Reason: spec.Unavailable, Path: path, Err: err}
	}
	return nil
}
