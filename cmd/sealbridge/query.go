package main

import (
	"github.com/spf13/cobra"

	"sealbridge/gateway/home"
	"sealbridge/gateway/local"
)

// client is how a command reaches the gateway of this home.
func (a *app) client() (*home.Home, *local.Client, error) {
	h, err := home.Read(a.home)
	if err != nil {
		return nil, nil, err
	}
	return h, local.NewClient(h.Socket(), thisVersion()), nil
}

// query puts one question to the running gateway and shows the answer: as one
// JSON value with --json, else as text by show.
func query[In, Out any](a *app, c *cobra.Command, op local.Op[In, Out], in In, show func(Out) error) error {
	_, cl, err := a.client()
	if err != nil {
		return err
	}
	out, err := op.Call(c.Context(), cl, in)
	switch {
	case err != nil:
		return err
	case a.json:
		return a.emit(out)
	}
	return show(out)
}
