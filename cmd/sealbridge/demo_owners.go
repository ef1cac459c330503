package main

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"sealbridge/gateway"
)

var addressLine = regexp.MustCompile(`(wss?|nats|tls)://[^ "]+/z6Mk[1-9A-HJ-NP-Za-km-z]+`)

func (d *demo) startRelay(ctx context.Context) (err error) {
	if d.port, err = freePort(); err != nil {
		return err
	}
	if err := d.relayUp(ctx); err != nil {
		return err
	}
	d.tell("A relay starts. It carries sealed bytes and can read none of them.")
	d.more("%s", d.address)
	return nil
}

func (d *demo) relayUp(ctx context.Context) (err error) {
	d.address, err = d.start(ctx, "relay", addressLine, "relay", "--listen", "127.0.0.1:"+d.port, "--store", filepath.Join(d.dir, "relay"))
	return err
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}

var serving = regexp.MustCompile(`Sealbridge gateway`)

func (d *demo) serve(ctx context.Context, who string) error {
	console := "off"
	if d.interactive { // the fixed port is one owner's; the other gets any
		console = map[string]string{"ann": "7811", "ben": "0"}[who]
	}
	_, err := d.start(ctx, who, serving, "--home", filepath.Join(d.dir, who), "serve", "--console", console, "--log-level", logLevel(d.verbose))
	return err
}

func (d *demo) identities(ctx context.Context) error {
	for _, who := range []string{"ann", "ben"} {
		if _, err := d.must(ctx, who, "init", "--name", strings.ToUpper(who[:1])+who[1:], "--relay", d.address, "--unsealed"); err != nil {
			return err
		}
	}
	d.tell("Ann and Ben make identities. Owner and agent have different keys.")
	d.more("unsealed here, because nobody types a passphrase; every yes below says presence: none")
	return nil
}

func (d *demo) gateways(ctx context.Context) error {
	for _, who := range []string{"ann", "ben"} {
		if err := d.serve(ctx, who); err != nil {
			return err
		}
	}
	d.tell("Two gateways run, as processes of their own.")
	return nil
}

func (d *demo) invite(ctx context.Context) error {
	out, err := d.invites(ctx, "ann", "ben")
	if err == nil {
		d.tell("Ann sends Ben an invite: one line of %d characters, good once.", len(out.Token))
	}
	return err
}

// invites makes an invite at one owner's and redeems it at the other's.
func (d *demo) invites(ctx context.Context, from, to string) (out gateway.Invited, err error) {
	err = eventually(ctx, "an invite", func() (ok bool, err error) {
		out, err = ask[gateway.Invited](ctx, d, from, "invite")
		return err == nil, err
	})
	if err != nil {
		return out, err
	}
	return out, eventually(ctx, "redeeming", func() (bool, error) {
		_, err := d.must(ctx, to, "contact", "add", out.Token)
		return err == nil, err
	})
}

func (d *demo) words(ctx context.Context) error {
	words, err := d.compare(ctx, "ann", "ben")
	if err != nil {
		return err
	}
	d.tell("Both screens show the same six words; a person at each end says so.")
	d.more("%s", words)
	return nil
}

// compare confirms two owners to each other, if both screens show the same words.
func (d *demo) compare(ctx context.Context, one, other string) (string, error) {
	seen := func(at, whom string) (v gateway.ContactView, err error) {
		err = eventually(ctx, at+" to know "+whom, func() (bool, error) {
			cs, err := ask[[]gateway.ContactView](ctx, d, at, "contact", "list")
			i := slices.IndexFunc(cs, func(c gateway.ContactView) bool { return strings.EqualFold(c.Name, whom) })
			if i >= 0 {
				v = cs[i]
			}
			return i >= 0, err
		})
		return v, err
	}
	a, err := seen(one, other)
	if err != nil {
		return "", err
	}
	b, err := seen(other, one)
	if err != nil {
		return "", err
	}
	if a.Words != b.Words {
		return "", fmt.Errorf("the words differ: %q and %q", a.Words, b.Words)
	}
	for who, name := range map[string]string{one: a.Name, other: b.Name} {
		if _, err := d.must(ctx, who, "contact", "confirm", name, "--words", a.Words); err != nil {
			return "", err
		}
	}
	return a.Words, nil
}
