package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sealbridge/gateway"
	"sealbridge/gateway/home"
	"sealbridge/gateway/local"
	"sealbridge/manifest"
	"sealbridge/signing"
	"sealbridge/spec"
)

var _ = register(approverCommand)

func approverCommand(a *app) *cobra.Command {
	c := &cobra.Command{Use: "approver", GroupID: "gates", Short: "passkeys and devices that may answer for you",
		Long: "A passkey of the console, or a key on a device elsewhere, answers gates once the\n" +
			"owner key has certified it. Its yes is proven to everybody, offline.",
		Example: "  sealbridge approver add --passkey 7K2Q-41VD-0RTE\n  sealbridge approver list"}
	c.AddCommand(approverAdd(a), approverKey(a), approverList(a), approverRenew(a), approverRevoke(a))
	return c
}

// approverTerm is a quarter, with a minute for clocks (I5).
const approverTerm = 90*24*time.Hour - time.Minute

// certification is what approver add was told.
type certification struct {
	passkey, key, person, until, out string
	gates                            []string
}

func approverAdd(a *app) *cobra.Command {
	var in certification
	c := &cobra.Command{
		Use: "add --passkey CODE | --key DID", Short: "certify a passkey or a device with the owner key", Args: cobra.NoArgs,
		Long: "The console shows the CODE of a passkey that was just made in the browser; a device\n" +
			"says its key with `approver key`. The owner key signs which gates it may answer and\n" +
			"until when. --person names whose it is: everything of one person has one vote, and\n" +
			"without it the passkey or device is your own.",
		Example: "  sealbridge approver add --passkey 7K2Q-41VD-0RTE\n" +
			"  sealbridge approver add --key did:key:z6Mk… --person carl --gates budget,effect --for 30d -o carl.json",
		RunE: func(c *cobra.Command, _ []string) error {
			h, cl, err := a.client()
			if err != nil {
				return err
			}
			cert, err := a.certificate(c, h, cl, in)
			if err != nil {
				return err
			}
			return a.certify(c.Context(), h, cl, cert, in.out)
		},
	}
	f := c.Flags()
	f.StringVar(&in.passkey, "passkey", "", "the code that the console shows")
	f.StringVar(&in.key, "key", "", "the key of a device: did:key:…")
	f.StringVar(&in.person, "person", manifest.OwnerPerson, "whose it is; owner is you")
	f.StringSliceVar(&in.gates, "gates", nil, "contract, effect, budget, delegation, delivery (all)")
	f.StringVar(&in.until, "for", "90d", "how long, 90d at most")
	f.StringVarP(&in.out, "out", "o", "", "also write the certificate to a file: a device needs it to answer")
	return c
}

// certify signs a certificate with the owner key, here and not in the gateway (G9), and hands it in.
func (a *app) certify(ctx context.Context, h *home.Home, cl *local.Client, cert manifest.ApproverCertificate, file string) error {
	owner, _, err := a.owner(h)
	if err != nil {
		return err
	}
	v, err := manifest.Sign(&cert, owner, a.now())
	if err != nil {
		return err
	}
	out, err := local.AddApprover.Call(ctx, cl, gateway.Document{Wire: v.Wire().String()})
	if err != nil {
		return err
	}
	if file != "" {
		if err := writeDocument(file, v.Wire()); err != nil {
			return err
		}
	}
	if a.json {
		return a.emit(out)
	}
	a.print("%s of %s may answer %s until %s\n", out.Proves, out.Person, strings.Join(out.Gates, ", "), inLocal(out.Until))
	a.asksThem(h, out)
	return nil
}

// certificate is what the owner key is asked to sign, shown before it is.
func (a *app) certificate(c *cobra.Command, h *home.Home, cl *local.Client, in certification) (cert manifest.ApproverCertificate, err error) {
	term, err := manifest.ParseSpan(in.until)
	if err != nil {
		return cert, err
	}
	cert = manifest.ApproverCertificate{Type: "sealbridge/approver-certificate", ProtocolVersion: manifest.ProtocolVersion, OwnerDid: h.Owner, Person: in.person,
		IssuedAt: signing.TimeOf(a.now()), ExpiresAt: signing.TimeOf(a.now().Add(min(term, approverTerm)))}
	if cert.Gates, err = gatesOf(in.gates); err != nil {
		return cert, err
	}
	switch {
	case (in.passkey == "") == (in.key == ""):
		return cert, usage("--passkey CODE, or --key DID")
	case in.key != "":
		cert.ApproverDid, err = signing.ParseDID(in.key)
		return cert, err
	}
	code := strings.ToUpper(in.passkey)
	offer, err := local.Offered.Call(c.Context(), cl, gateway.OfferRef{Code: code})
	if err != nil {
		return cert, err
	}
	if offer.Credential.Code(offer.Approver) != code { // what the gateway says is held against what the person typed
		return cert, spec.Refuse(spec.VerificationFailed, "", "the passkey behind this code is another one")
	}
	cert.ApproverDid, cert.Credential = offer.Approver, &offer.Credential
	a.note("a passkey for %s", offer.Credential.Origin)
	return cert, nil
}

// gatesOf reads gate words; none means all.
func gatesOf(words []string) (out []manifest.Gate, err error) {
	all := []manifest.Gate{manifest.ContractGate, manifest.EffectGate, manifest.BudgetGate, manifest.SubGate, manifest.DeliveryGate}
	if len(words) == 0 {
		return all, nil
	}
	for _, w := range words {
		found := false
		for _, g := range all {
			if manifest.GateWord(g) == w {
				out, found = append(out, g), true
			}
		}
		if !found {
			return nil, usage("--gates of contract, effect, budget, delegation, delivery")
		}
	}
	return out, nil
}

// asksThem says what is still missing where policy.yaml asks nobody by this key.
func (a *app) asksThem(h *home.Home, v gateway.ApproverView) {
	if v.Person == manifest.OwnerPerson {
		return
	}
	p, err := h.Policy()
	if err != nil {
		return
	}
	for _, who := range p.People {
		if who.Key == v.Key {
			return
		}
	}
	a.note("It is asked once policy.yaml says so:\n  people:\n    %s: {key: %s, gates: [%s]}\n  ask:\n    %s: {who: [me, %s]}",
		v.Person, v.Key, strings.Join(v.Gates, ", "), v.Gates[0], v.Person)
}

func approverKey(a *app) *cobra.Command {
	var unsealed bool
	c := &cobra.Command{Use: "key FILE", Short: "make the key of a device, to be certified by its owner", Args: cobra.ExactArgs(1),
		Long:    "Run it on the device, away from the gateway. The file stays there; what is printed\nis for `sealbridge approver add --key` where the owner key is.",
		Example: "  sealbridge approver key phone.key",
		RunE: func(_ *cobra.Command, args []string) error {
			pass, err := a.newPassphrase(unsealed, "the key of this device")
			if err != nil {
				return err
			}
			did, err := home.CreateKey(args[0], pass)
			if err != nil {
				if _, there := os.Lstat(args[0]); there == nil {
					return spec.Refuse(spec.Conflict, args[0], "is there already")
				}
				return err
			}
			if a.json {
				return a.emit(map[string]string{"key": did.String()})
			}
			a.print("%s\n", did)
			a.note("where the owner key is: sealbridge approver add --key %s --person NAME -o CERTIFICATE", did)
			return nil
		}}
	c.Flags().BoolVar(&unsealed, "unsealed", false, "without a passphrase: for machines and tests")
	return c
}

func approverList(a *app) *cobra.Command {
	return &cobra.Command{Use: "list", Short: "list who may answer for you", Example: "  sealbridge approver list --json", Args: cobra.NoArgs, RunE: func(c *cobra.Command, _ []string) error {
		return query(a, c, local.Approvers, gateway.None{}, func(out gateway.ApproverList) error {
			if len(out.Approvers) == 0 {
				a.print("nobody but the owner key\n")
			}
			for _, v := range out.Approvers {
				a.print("%s  %-8s %-10s %s   until %s%s\n", approverRef(v), v.Proves, v.Person, strings.Join(v.Gates, ", "), inLocal(v.Until), at(v))
			}
			return nil
		})
	}}
}

func at(v gateway.ApproverView) string {
	switch {
	case v.Passkey == "":
		return ""
	case !v.Here:
		return "   " + v.Passkey + ", not of this gateway"
	}
	return "   " + v.Passkey
}

// approverRef is how people type an approver: the end of its certificate's digest.
func approverRef(v gateway.ApproverView) string {
	d := v.Digest.String()
	return d[len(d)-8:]
}

func approverRenew(a *app) *cobra.Command {
	var span, out string
	c := &cobra.Command{Use: "renew APPROVER", Short: "certify the same passkey or device for another term", Args: cobra.ExactArgs(1), Example: "  sealbridge approver renew 4be109c7 --for 90d",
		RunE: func(c *cobra.Command, args []string) error {
			h, cl, err := a.client()
			if err != nil {
				return err
			}
			term, err := manifest.ParseSpan(span)
			if err != nil {
				return err
			}
			list, err := local.Approvers.Call(c.Context(), cl, gateway.None{})
			if err != nil {
				return err
			}
			v, err := findApprover(list.Approvers, args[0])
			if err != nil {
				return err
			}
			cert := v.Certificate
			cert.IssuedAt, cert.ExpiresAt = signing.TimeOf(a.now()), signing.TimeOf(a.now().Add(min(term, approverTerm)))
			return a.certify(c.Context(), h, cl, cert, out)
		}}
	c.Flags().StringVar(&span, "for", "90d", "how long from now, 90d at most")
	c.Flags().StringVarP(&out, "out", "o", "", "also write the certificate to a file: a device needs it to answer")
	return c
}

func approverRevoke(a *app) *cobra.Command {
	var reason string
	c := &cobra.Command{Use: "revoke APPROVER", Short: "take a passkey or a device back, also from open questions", Args: cobra.ExactArgs(1),
		Example: "  sealbridge approver revoke 4be109c7 --reason \"phone lost\"",
		RunE: func(c *cobra.Command, args []string) error {
			h, cl, err := a.client()
			if err != nil {
				return err
			}
			list, err := local.Approvers.Call(c.Context(), cl, gateway.None{})
			if err != nil {
				return err
			}
			v, err := findApprover(list.Approvers, args[0])
			if err != nil {
				return err
			}
			owner, _, err := a.owner(h)
			if err != nil {
				return err
			}
			r, err := manifest.Sign(&manifest.Revocation{Type: "sealbridge/revocation", ProtocolVersion: manifest.ProtocolVersion, OwnerDid: h.Owner,
				Target: "approver-certificate", TargetDigest: v.Digest, Seq: list.Revocations + 1, Reason: reason, Stands: []manifest.Stand{}, At: signing.TimeOf(a.now())}, owner, a.now())
			if err != nil {
				return err
			}
			if _, err := local.Unapprove.Call(c.Context(), cl, gateway.Document{Wire: r.Wire().String()}); err != nil {
				return err
			}
			if a.json {
				return a.emit(v)
			}
			a.print("%s of %s answers nothing any more; your contacts are told\n", v.Proves, v.Person)
			return nil
		}}
	c.Flags().StringVar(&reason, "reason", "not needed any more", "why; your contacts can read it")
	return c
}

// findApprover resolves the ending of a certificate's digest or a person's name.
func findApprover(all []gateway.ApproverView, ref string) (gateway.ApproverView, error) {
	var found []gateway.ApproverView
	for _, v := range all {
		if v.Person == ref || len(ref) >= 4 && strings.HasSuffix(v.Digest.String(), strings.ToLower(ref)) {
			found = append(found, v)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return gateway.ApproverView{}, spec.Refuse(spec.NotFound, "", "no approver ends in "+manifest.Display(ref, 40))
	}
	return gateway.ApproverView{}, spec.Refuse(spec.Conflict, "", "more than one approver: say the end of its digest, of `sealbridge approver list`")
}

// approversStand is doctor's line: whose yes is proven, and for how long (G10);
// nothing where no gateway runs, which another line says.
func (a *app) approversStand(ctx context.Context, h *home.Home) (ok bool, text string) {
	list, err := local.Approvers.Call(ctx, local.NewClient(h.Socket(), thisVersion()), gateway.None{})
	if err != nil {
		return false, ""
	}
	if len(list.Approvers) == 0 {
		return true, "the owner key alone: to others your yes is claimed; a passkey (`sealbridge console`, Passkeys) or a device proves it"
	}
	var parts []string
	ok = true
	for _, v := range list.Approvers {
		left := int(v.Until.Sub(a.now()).Hours() / 24)
		ok = ok && left >= warnDays
		parts = append(parts, fmt.Sprintf("%s of %s, %s left", v.Proves, v.Person, plural(left, "day")))
	}
	return ok, strings.Join(parts, "; ")
}

// warnDays before a certificate ends: two weekends to renew it.
const warnDays = 14
