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
	storeWait    = 10 * time.Second
	attachedWait = 2 * time.Second
)

// store is the service's second connection: what is stored and read never
// shares a buffer with what clients send.
type store struct {
	nc       *nats.Conn
	js       jetstream.JetStream
	attached bool // replicas may lag, leaders change: what is not found may yet be there
	replicas int
}

func mailStream(shard int) string { return "SBM" + strconv.Itoa(shard) }

// create makes the streams that are missing.
func (st store) create(ctx context.Context, q Quotas) error {
	base := jetstream.StreamConfig{Replicas: max(1, st.replicas), Storage: jetstream.FileStorage, AllowDirect: true, Discard: jetstream.DiscardNew, Duplicates: 100 * time.Millisecond}
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
		if err := st.ensure(ctx, c); err != nil {
			return fmt.Errorf("creating stream %s: %w", c.Name, err)
		}
	}
	return nil
}

// ensure makes one stream, or gives it these limits. A cluster that elects its
// leaders drops what it is asked meanwhile: then we ask again, for a minute.
func (st store) ensure(ctx context.Context, c jetstream.StreamConfig) (err error) {
	for tries := 1; ; tries++ {
		if err = st.ensureOnce(ctx, c); err == nil || !st.attached || tries == ensureTries || ctx.Err() != nil {
			return err
		}
		time.Sleep(ensurePause)
	}
}

const (
	ensureTries = 20
	ensureWait  = 3 * time.Second
	ensurePause = 200 * time.Millisecond
)

func (st store) ensureOnce(ctx context.Context, c jetstream.StreamConfig) error {
	ctx, cancel := context.WithTimeout(ctx, ensureWait)
	defer cancel()
	_, err := st.js.CreateOrUpdateStream(ctx, c)
	return err
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
	return st.publishMsg(&nats.Msg{Subject: subject, Data: body})
}

// append stores a message as the one after the stream's sequence after, or not
// at all (errPassed): asked twice, it is stored once.
func (st store) append(subject string, body []byte, after uint64) (uint64, error) {
	return st.publishMsg(&nats.Msg{Subject: subject, Data: body, Header: nats.Header{"Nats-Expected-Last-Sequence": {strconv.FormatUint(after, 10)}}})
}

// errPassed says that the stream has gone on already.
var errPassed = errors.New("the stream has gone on")

func (st store) publishMsg(m *nats.Msg) (uint64, error) {
	r, err := st.nc.RequestMsg(m, st.wait())
	if err != nil {
		return 0, fmt.Errorf("storing %s: %w", m.Subject, err)
	}
	var a pubAck
	if err := json.Unmarshal(r.Data, &a); err != nil {
		return 0, fmt.Errorf("storing %s: %w", m.Subject, err)
	}
	switch {
	case a.Error == nil:
		return a.Seq, nil
	case strings.Contains(a.Error.Description, "per subject exceeded"):
		return 0, errShare
	case a.Error.ErrCode == 10071:
		return 0, errPassed
	case a.Error.ErrCode == 10023, a.Error.ErrCode == 10047, strings.Contains(a.Error.Description, "maximum bytes exceeded"):
		return 0, errFull
	}
	return 0, fmt.Errorf("storing %s: %s (%d)", m.Subject, a.Error.Description, a.Error.ErrCode)
}

// wait bounds one request. Within us the disk stands still: better no answer
// than an unknown one. Of a cluster an answer may have gone with a node.
func (st store) wait() time.Duration {
	if st.attached {
		return attachedWait
	}
	return storeWait
}

// errGone says that a message is not there any more.
var errGone = errors.New("not there")

// read returns one message; sel is {"seq":n} or {"last_by_subj":s}. Of replicas
// one that lags may answer: only the leader's word is that it is not there.
func (st store) read(stream, sel string) (*nats.Msg, error) {
	m, err := st.nc.Request("$JS.API.DIRECT.GET."+stream, []byte(sel), st.wait())
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", stream, err)
	}
	switch m.Header.Get("Status") {
	case "":
		return m, nil
	case "404":
		if st.attached {
			return st.readLeader(stream, sel)
		}
		return nil, errGone
	}
	return nil, fmt.Errorf("reading %s: %s", stream, m.Header.Get("Description"))
}

// readLeader asks the stream's leader. The answer has the headers of a direct one.
func (st store) readLeader(stream, sel string) (*nats.Msg, error) {
	m, err := st.nc.Request("$JS.API.STREAM.MSG.GET."+stream, []byte(sel), st.wait())
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", stream, err)
	}
	var a struct {
		Error *struct {
			ErrCode     int    `json:"err_code"`
			Description string `json:"description"`
		} `json:"error"`
		Message *struct {
			Subject string    `json:"subject"`
			Seq     uint64    `json:"seq"`
			Data    []byte    `json:"data"`
			Time    time.Time `json:"time"`
		} `json:"message"`
	}
	switch err := json.Unmarshal(m.Data, &a); {
	case err != nil:
		return nil, fmt.Errorf("reading %s: %w", stream, err)
	case a.Error != nil && a.Error.ErrCode == 10037:
		return nil, errGone
	case a.Error != nil:
		return nil, fmt.Errorf("reading %s: %s (%d)", stream, a.Error.Description, a.Error.ErrCode)
	case a.Message == nil:
		return nil, fmt.Errorf("reading %s: no message in %s", stream, m.Data)
	}
	x := a.Message
	return &nats.Msg{Subject: m.Subject, Data: x.Data, Header: nats.Header{"Nats-Subject": {x.Subject},
		"Nats-Sequence": {strconv.FormatUint(x.Seq, 10)}, "Nats-Time-Stamp": {x.Time.Format(time.RFC3339Nano)}}}, nil
}

// record is a message as scan finds it.
type record struct {
	seq     uint64
	subject string
	at      time.Time
	body    []byte
}

func recordOf(m *nats.Msg) (r record, err error) {
	r = record{subject: m.Header.Get("Nats-Subject"), body: m.Data}
	if r.seq, err = strconv.ParseUint(m.Header.Get("Nats-Sequence"), 10, 64); err == nil {
		r.at, err = time.Parse(time.RFC3339Nano, m.Header.Get("Nats-Time-Stamp"))
	}
	return r, err
}

// scan walks a stream from its start, in order. Of replicas it walks until it
// has as many records as the leader counts: one that lags would end early.
func (st store) scan(stream, filter string, each func(record) error) error {
	if !st.attached {
		_, err := st.scanFrom(stream, filter, 1, each)
		return err
	}
	for tries := 1; ; tries++ {
		before, err := st.info(stream, filter)
		if err != nil {
			return err
		}
		var all []record
		if _, err = st.scanFrom(stream, filter, 1, func(r record) error { all = append(all, r); return nil }); err != nil {
			return err
		}
		after, err := st.info(stream, filter)
		if err == nil && before == after && uint64(len(all)) == after.count {
			for _, r := range all {
				if err := each(r); err != nil {
					return err
				}
			}
			return nil
		}
		if tries == scanTries {
			return fmt.Errorf("scanning %s: %d records, the leader counts %d: %w", stream, len(all), after.count, err)
		}
		time.Sleep(ensurePause)
	}
}

const scanTries = 50

func (st store) scanFrom(stream, filter string, next uint64, each func(record) error) (uint64, error) {
	inbox := st.nc.NewInbox()
	sub, err := st.nc.SubscribeSync(inbox)
	if err != nil {
		return next, err
	}
	defer sub.Unsubscribe() //nolint:errcheck // the connection may be gone
	for {
		ask := fmt.Sprintf(`{"seq":%d,"next_by_subj":%q,"batch":256,"max_bytes":%d}`, next, filter, 8<<20)
		if err := st.nc.PublishRequest("$JS.API.DIRECT.GET."+stream, inbox, []byte(ask)); err != nil {
			return next, err
		}
		for {
			m, err := sub.NextMsg(storeWait)
			if err != nil {
				return next, fmt.Errorf("scanning %s: %w", stream, err)
			}
			if s := m.Header.Get("Status"); s == "404" {
				return next, nil
			} else if s == "204" {
				break
			} else if s != "" {
				return next, fmt.Errorf("scanning %s: %s", stream, m.Header.Get("Description"))
			}
			r, err := recordOf(m)
			if err != nil {
				return next, fmt.Errorf("scanning %s: %w", stream, err)
			}
			if err := each(r); err != nil {
				return next, err
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
	i, err := st.info(stream, "")
	return i.last, err
}

// state of a stream as its leader sees it.
type streamState struct{ last, count uint64 }

// info asks the leader; count is that of the subjects that the filter matches.
func (st store) info(stream, filter string) (x streamState, err error) {
	var ask []byte
	if filter != "" && filter != ">" {
		ask = relay.Write(map[string]string{"subjects_filter": filter})
	}
	m, err := st.nc.Request("$JS.API.STREAM.INFO."+stream, ask, st.wait())
	if err != nil {
		return x, fmt.Errorf("asking about %s: %w", stream, err)
	}
	var info struct {
		State *struct {
			LastSeq  uint64            `json:"last_seq"`
			Messages uint64            `json:"messages"`
			Subjects map[string]uint64 `json:"subjects"`
		} `json:"state"`
	}
	if err := json.Unmarshal(m.Data, &info); err != nil || info.State == nil {
		return x, fmt.Errorf("asking about %s: %s", stream, m.Data)
	}
	x = streamState{info.State.LastSeq, info.State.Messages}
	if ask != nil {
		x.count = 0
		for _, n := range info.State.Subjects {
			x.count += n
		}
	}
	return x, nil
}
