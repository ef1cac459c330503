package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"sealbridge/relay"
	"sealbridge/spec"
)

const (
	objectStream = "SBO"
	logStream    = "SBL"
	stateStream  = "SBK"
	storeWait    = 10 * time.Second // the disk stands still: better no answer than an unknown one
)

// store is the service's second connection: what is stored and read never
// shares a buffer with what clients send.
type store struct {
	nc *nats.Conn
	js jetstream.JetStream
}

func mailStream(shard int) string { return "SBM" + strconv.Itoa(shard) }

// create makes the streams that are missing.
func (st store) create(ctx context.Context, q Quotas) error {
	base := jetstream.StreamConfig{Storage: jetstream.FileStorage, AllowDirect: true, Discard: jetstream.DiscardNew, Duplicates: 100 * time.Millisecond}
	var all []jetstream.StreamConfig
	for k := range relay.Shards {
		c := base
		c.Name, c.Subjects = mailStream(k), []string{fmt.Sprintf("sb.m.%d.*.*", k)}
		c.MaxAge, c.MaxMsgSize = q.MailAge, relay.MaxEnvelope+4<<10
		c.MaxMsgsPerSubject, c.DiscardNewPerSubject = int64(q.PerSender), true
		all = append(all, c)
	}
	c := base
	c.Name, c.Subjects, c.MaxAge = objectStream, []string{"sb.o.>"}, q.FileAge
	c.MaxMsgsPerSubject, c.DiscardNewPerSubject = 1, true
	all = append(all, c)
	c = base
	c.Name, c.Subjects, c.DenyDelete, c.DenyPurge = logStream, []string{"sb.l.>"}, true, true
	all = append(all, c)
	c = base
	c.Name, c.Subjects, c.MaxMsgsPerSubject, c.Discard = stateStream, []string{"sb.s.>"}, 1, jetstream.DiscardOld
	all = append(all, c)
	for _, c := range all {
		if _, err := st.js.CreateOrUpdateStream(ctx, c); err != nil {
			return fmt.Errorf("creating stream %s: %w", c.Name, err)
		}
	}
	return nil
}

// errFull and errShare are the two refusals of the store that are not faults.
var (
	errFull  = errors.New("store is full")
	errShare = errors.New("share of this subject is used up")
)

type pubAck struct {
	Seq   uint64 `json:"seq"`
	Error *struct {
		ErrCode     int    `json:"err_code"`
		Description string `json:"description"`
	} `json:"error"`
}

// publish stores a message and returns its sequence once it is as durable as
// the sync mode says. No header of a client goes into the store.
func (st store) publish(subject string, body []byte) (uint64, error) {
	m, err := st.nc.Request(subject, body, storeWait)
	if err != nil {
		return 0, fmt.Errorf("storing %s: %w", subject, err)
	}
	var a pubAck
	if err := json.Unmarshal(m.Data, &a); err != nil {
		return 0, fmt.Errorf("storing %s: %w", subject, err)
	}
	switch {
	case a.Error == nil:
		return a.Seq, nil
	case strings.Contains(a.Error.Description, "per subject exceeded"):
		return 0, errShare
	case a.Error.ErrCode == 10023, a.Error.ErrCode == 10047, strings.Contains(a.Error.Description, "maximum bytes exceeded"):
		return 0, errFull
	}
	return 0, fmt.Errorf("storing %s: %s (%d)", subject, a.Error.Description, a.Error.ErrCode)
}

// errGone says that a message is not there any more.
var errGone = errors.New("not there")

// read returns one message; sel is {"seq":n} or {"last_by_subj":s}.
func (st store) read(stream, sel string) (*nats.Msg, error) {
	m, err := st.nc.Request("$JS.API.DIRECT.GET."+stream, []byte(sel), storeWait)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", stream, err)
	}
	switch m.Header.Get("Status") {
	case "":
		return m, nil
	case "404":
		return nil, errGone
	}
	return nil, fmt.Errorf("reading %s: %s", stream, m.Header.Get("Description"))
}

// record is a message as scan finds it.
type record struct {
	seq     uint64
	subject string
	at      time.Time
	body    []byte
}

// scan walks a stream from its start, in order.
func (st store) scan(stream, filter string, each func(record) error) error {
	inbox := st.nc.NewInbox()
	sub, err := st.nc.SubscribeSync(inbox)
	if err != nil {
		return err
	}
	defer sub.Unsubscribe() //nolint:errcheck // the connection may be gone
	for next := uint64(1); ; {
		ask := fmt.Sprintf(`{"seq":%d,"next_by_subj":%q,"batch":256,"max_bytes":%d}`, next, filter, 8<<20)
		if err := st.nc.PublishRequest("$JS.API.DIRECT.GET."+stream, inbox, []byte(ask)); err != nil {
			return err
		}
		for {
			m, err := sub.NextMsg(storeWait)
			if err != nil {
				return fmt.Errorf("scanning %s: %w", stream, err)
			}
			if s := m.Header.Get("Status"); s == "404" {
				return nil
			} else if s == "204" {
				break
			} else if s != "" {
				return fmt.Errorf("scanning %s: %s", stream, m.Header.Get("Description"))
			}
			r := record{subject: m.Header.Get("Nats-Subject"), body: m.Data}
			if r.seq, err = strconv.ParseUint(m.Header.Get("Nats-Sequence"), 10, 64); err != nil {
				return fmt.Errorf("scanning %s: %w", stream, err)
			}
			if r.at, err = time.Parse(time.RFC3339Nano, m.Header.Get("Nats-Time-Stamp")); err != nil {
				return fmt.Errorf("scanning %s: %w", stream, err)
			}
			if err := each(r); err != nil {
				return err
			}
			next = r.seq + 1
		}
	}
}

// purge removes what the filter matches before a sequence, or all for 0.
func (st store) purge(stream, filter string, before uint64) error {
	ask := fmt.Sprintf(`{"filter":%q}`, filter)
	if before > 0 {
		ask = fmt.Sprintf(`{"filter":%q,"seq":%d}`, filter, before)
	}
	m, err := st.nc.Request("$JS.API.STREAM.PURGE."+stream, []byte(ask), storeWait)
	if err != nil {
		return fmt.Errorf("purging %s: %w", stream, err)
	}
	var a pubAck
	if json.Unmarshal(m.Data, &a) != nil || a.Error != nil {
		return fmt.Errorf("purging %s: %s", stream, m.Data)
	}
	return nil
}

// storeError is what a client hears of a refusal of the store.
func storeError(err error) error {
	switch {
	case errors.Is(err, errShare):
		return spec.Refuse(spec.Quota, "", "envelopes of one sender in one mailbox")
	case errors.Is(err, errFull):
		return spec.Refuse(spec.Unavailable, "", "the relay is full")
	}
	return &spec.Error{Reason: spec.Unavailable, Err: err}
}

// last is the newest sequence that a stream ever gave out.
func (st store) last(stream string) (uint64, error) {
	m, err := st.nc.Request("$JS.API.STREAM.INFO."+stream, nil, storeWait)
	if err != nil {
		return 0, fmt.Errorf("asking about %s: %w", stream, err)
	}
	var info struct {
		State *struct {
			LastSeq uint64 `json:"last_seq"`
		} `json:"state"`
	}
	if err := json.Unmarshal(m.Data, &info); err != nil || info.State == nil {
		return 0, fmt.Errorf("asking about %s: %s", stream, m.Data)
	}
	return info.State.LastSeq, nil
}
