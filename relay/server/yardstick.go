package server

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	natsd "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"sealbridge/relay"
)

// Yardstick is a bare broker with one stream, as a put by the relay is held
// against (bar S5): no login, no service, no receipt. publish returns when the
// broker has stored the body. Nothing else uses it.
func Yardstick(ctx context.Context, dir string, sync relay.SyncMode) (publish func(body []byte) error, stop func(), err error) {
	ns, err := natsd.NewServer(&natsd.Options{Host: "127.0.0.1", Port: -1, JetStream: true, NoSigs: true,
		StoreDir: filepath.Join(dir, "js"), SyncAlways: sync == relay.SyncAlways})
	if err != nil {
		return nil, nil, err
	}
	ns.Start()
	shut := func() { ns.Shutdown(); ns.WaitForShutdown() }
	if !ns.ReadyForConnections(5 * time.Second) {
		shut()
		return nil, nil, errors.New("the bare broker did not start")
	}
	nc, err := nats.Connect(ns.ClientURL())
	if err != nil {
		shut()
		return nil, nil, err
	}
	stop = func() { nc.Close(); shut() }
	js, err := jetstream.New(nc)
	if err == nil {
		_, err = js.CreateStream(ctx, jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}})
	}
	if err != nil {
		stop()
		return nil, nil, err
	}
	return func(body []byte) error {
		_, err := nc.Request("s.x", body, 5*time.Second)
		return err
	}, stop, nil
}
