package server

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sealbridge/relay"
	"sealbridge/signing"
	"sealbridge/spec"
)

// BackupAbout is the last entry of a backup: one without it was cut.
const BackupAbout = "about.json"

const (
	backupState = "state.ndjson"
	backupLogs  = "log/"

	maxBackupEntry = 4 << 30 // bytes: 134 million leaves
)

// About says what a backup holds.
type About struct {
	Relay   signing.DID `json:"relay"`
	At      time.Time   `json:"at"`
	Members int         `json:"members"`
	Logs    []AboutLog  `json:"logs"`
}

// AboutLog is one custody log, whole to this size.
type AboutLog struct {
	Name string         `json:"name"` // of the store that wrote it
	Size int64          `json:"size"`
	Root signing.Digest `json:"root"`
}

// stateRecord is one line of the state.
type stateRecord struct {
	Kind  string          `json:"kind"`
	Key   string          `json:"key"`
	Value json.RawMessage `json:"value"`
}

// Backup writes what nobody else has, as a tar: members, bans, mailboxes with
// their lists, invites that wait, and the leaves of every custody log. Mail and
// files are not in it: their senders keep them.
func (s *Server) Backup(w io.Writer) (about About, err error) {
	about = About{Relay: s.cfg.Signer.DID(), At: s.cfg.Now().UTC()}
	var state bytes.Buffer
	err = s.st.scan(stateStream, "sb.s.>", func(r record) error {
		kind, key, _ := strings.Cut(strings.TrimPrefix(r.subject, "sb.s."), ".")
		if len(r.body) == 0 {
			return nil
		}
		if kind == "member" {
			about.Members++
		}
		state.Write(relay.Write(stateRecord{kind, key, r.body}))
		state.WriteByte('\n')
		return nil
	})
	if err != nil {
		return about, err
	}
	logs := make(map[string][]byte)
	err = s.st.scan(logStream, "sb.l.>", func(r record) error {
		name := strings.TrimPrefix(r.subject, "sb.l.")
		logs[name] = append(logs[name], r.body...)
		return nil
	})
	if err != nil {
		return about, err
	}
	t := tar.NewWriter(w)
	add := func(name string, b []byte) {
		err = errors.Join(err, t.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(b)), ModTime: about.At}))
		if err == nil {
			_, err = t.Write(b)
		}
	}
	add(backupState, state.Bytes())
	for _, name := range slices.Sorted(maps.Keys(logs)) {
		l, lerr := readLog(logs[name])
		if lerr != nil {
			return about, lerr
		}
		head, lerr := l.Head(about.Relay, name, about.At)
		if lerr != nil {
			return about, lerr
		}
		about.Logs = append(about.Logs, AboutLog{name, head.Size, head.Root})
		add(backupLogs+name, logs[name])
	}
	add(BackupAbout, relay.Write(about))
	return about, errors.Join(err, t.Close())
}

// readLog makes a log of its leaves.
func readLog(leaves []byte) (l relay.Log, err error) {
	if len(leaves)%32 != 0 {
		return l, fmt.Errorf("custody log: %d bytes", len(leaves))
	}
	for b := leaves; len(b) > 0 && err == nil; b = b[32:] {
		err = l.Append(signing.DigestFrom([32]byte(b)))
	}
	return l, err
}

// Restore puts a backup into a folder that has no store. How far the relay went
// on after the backup nobody here can say: so its log is kept as it is and never
// made longer, and the relay goes on in a new log with a new origin. Two receipts
// of one index then never exist. Join tickets are not put back: they may be used up.
func Restore(ctx context.Context, c Config, backup io.Reader) (about About, err error) {
	c.Listen, c.OpsListen = "127.0.0.1:0", ""
	if _, _, err := c.validate(); err != nil {
		return about, err
	}
	dir := filepath.Join(c.Dir, "store")
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		return about, spec.Refuse(spec.Conflict, dir, "is there already")
	}
	records, logs, about, err := readBackup(backup)
	if err != nil {
		return about, err
	}
	if about.Relay != c.Signer.DID() {
		return about, spec.Refuse(spec.WrongSigner, BackupAbout, "the backup of another relay")
	}
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return about, fmt.Errorf("making the store: %w", err)
	}
	s := &Server{cfg: c, log: c.Log, ready: make(chan struct{}), stopping: make(chan struct{}), faulted: make(chan struct{})}
	s.metrics = newMetrics(s)
	o := s.options("127.0.0.1", 0)
	o.DontListen, o.TLSConfig = true, nil
	o.Websocket.Port = 0
	var e *embedded
	if e, err = embed(s, o); err == nil {
		s.broker = e
		if err = s.connect(ctx); err == nil {
			if err = s.st.create(ctx, s.cfg.Quotas); err == nil {
				err = s.refill(ctx, records, logs)
			}
		}
	}
	err = errors.Join(err, s.Close())
	if err != nil {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	return about, err
}

// readBackup reads all of it and holds the logs against what the backup says of them.
func readBackup(r io.Reader) (records []stateRecord, logs map[string][]byte, about About, err error) {
	bad := func(path string, err error) error { return &spec.Error{Reason: spec.Malformed, Path: path, Err: err} }
	logs = make(map[string][]byte)
	t := tar.NewReader(bufio.NewReader(r))
	for {
		h, err := t.Next()
		if err != nil {
			return nil, nil, about, bad(BackupAbout, errors.New("the backup is cut"))
		}
		if h.Typeflag != tar.TypeReg || len(h.PAXRecords) > 0 { // a sparse file is larger than it is
			return nil, nil, about, bad(h.Name, errors.New("not a plain file"))
		}
		if h.Size > maxBackupEntry {
			return nil, nil, about, spec.Refuse(spec.TooLarge, h.Name, "4 GiB")
		}
		b, err := io.ReadAll(t)
		if err != nil {
			return nil, nil, about, bad(h.Name, err)
		}
		name, isLog := strings.CutPrefix(h.Name, backupLogs)
		switch {
		case isLog:
			logs[name] = b
		case h.Name == backupState:
			for line := range bytes.Lines(b) {
				var x stateRecord
				if err := json.Unmarshal(line, &x); err != nil {
					return nil, nil, about, bad(h.Name, err)
				}
				records = append(records, x)
			}
		case h.Name == BackupAbout:
			if err := json.Unmarshal(b, &about); err != nil {
				return nil, nil, about, bad(h.Name, err)
			}
			return records, logs, about, about.holds(logs)
		}
	}
}

// holds says whether the logs are those that the backup was made of.
func (a About) holds(logs map[string][]byte) error {
	if len(a.Logs) != len(logs) {
		return spec.Refuse(spec.BadDigest, backupLogs, "a log is missing")
	}
	for _, want := range a.Logs {
		l, err := readLog(logs[want.Name])
		if err == nil {
			var head relay.Checkpoint
			if head, err = l.Head(a.Relay, want.Name, a.At); err == nil && (head.Size != want.Size || head.Root != want.Root) {
				err = errors.New("not the log that it names")
			}
		}
		if err != nil {
			return &spec.Error{Reason: spec.BadDigest, Path: backupLogs + want.Name, Err: err}
		}
	}
	return nil
}

const refillLeaves = 16 << 10 // 512 KiB a message

func (s *Server) refill(ctx context.Context, records []stateRecord, logs map[string][]byte) error {
	for _, r := range records {
		if r.Kind == "store" || r.Kind == "join" {
			continue
		}
		probe := state{members: map[relay.Token]member{}, bans: map[relay.Token]ban{}, boxes: map[relay.Token]*relay.Mailbox{}, drops: map[string]drop{}}
		if err := probe.put(r.Kind, r.Key, r.Value); err != nil {
			return &spec.Error{Reason: spec.Malformed, Path: backupState, Err: err}
		}
		if _, err := s.st.publish("sb.s."+r.Kind+"."+r.Key, r.Value); err != nil {
			return err
		}
	}
	for name, leaves := range logs {
		for len(leaves) > 0 {
			n := min(len(leaves), 32*refillLeaves)
			if _, err := s.st.publish("sb.l."+name, leaves[:n]); err != nil {
				return err
			}
			leaves = leaves[n:]
		}
	}
	return ctx.Err()
}
