package main

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"sealbridge/relay/server"
	"sealbridge/spec"
)

// maxRelayFile bounds the key and the configuration in a backup.
const maxRelayFile = 1 << 20

func relayBackup(a *app, f *relayFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "backup FILE",
		Short: "write what nobody else has: the relay's key, its members, its custody log",
		Long: "Of the relay that runs. Mail and files are not in it: their senders keep them until the\n" +
			"recipient has signed, and send them again. Whoever has the file is the relay.",
		Example: "  sealbridge relay backup relay-2026-12-01.backup --config /etc/sealbridge/relay.yaml",
		Args:    cobra.ExactArgs(1),
		RunE: adminDo(a, f, func(ctx context.Context, ad *server.Admin, args []string) error {
			about, err := a.backupRelay(ctx, ad, *f, args[0])
			if err != nil {
				return err
			}
			if a.json {
				return a.emit(about)
			}
			a.print("%s   %s, %s; keep it as you keep the key in it\n", args[0], counted(about.Members, "member"), counted(int(leavesOf(about)), "receipt"))
			return nil
		}),
	}
}

func leavesOf(a server.About) (n int64) {
	for _, l := range a.Logs {
		n += l.Size
	}
	return n
}

// backupRelay writes key, configuration and what the relay says into one new file.
func (a *app) backupRelay(ctx context.Context, ad *server.Admin, f relayFlags, to string) (about server.About, err error) {
	r, err := a.readRelay(f)
	if err != nil {
		return about, err
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return about, spec.Refuse(spec.Conflict, to, "is there already")
	} else if err != nil {
		return about, unopened(to, err)
	}
	z := gzip.NewWriter(out)
	w := tar.NewWriter(z)
	err = addFile(w, relayKeyName, r.Key)
	if err == nil && r.from != "" {
		err = addFile(w, relayConfigName, r.from)
	}
	if err == nil {
		about, err = addStore(ctx, w, ad)
	}
	if err = errors.Join(err, w.Close(), z.Close(), out.Sync(), out.Close()); err != nil {
		os.Remove(to) //nolint:errcheck // the first error is the one to tell
	}
	return about, err
}

func addFile(w *tar.Writer, name, path string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return unopened(path, err)
	}
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(b))}); err != nil {
		return err
	}
	_, err = w.Write(b)
	return err
}

// addStore copies what the relay says; what it says last makes it whole.
func addStore(ctx context.Context, w *tar.Writer, ad *server.Admin) (about server.About, err error) {
	body, err := ad.Backup(ctx)
	if err != nil {
		return about, err
	}
	defer body.Close()
	for r := tar.NewReader(body); ; {
		h, err := r.Next()
		if err != nil {
			return about, spec.Refuse(spec.Unavailable, "", "the relay broke off; its log says why")
		}
		if err := w.WriteHeader(h); err != nil {
			return about, err
		}
		if h.Name != server.BackupAbout {
			if _, err := io.Copy(w, r); err != nil {
				return about, err
			}
			continue
		}
		b, err := io.ReadAll(r)
		if err == nil {
			err = json.Unmarshal(b, &about)
		}
		if err == nil {
			_, err = w.Write(b)
		}
		return about, err
	}
}

func relayRestore(a *app, f *relayFlags) *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use:   "restore FILE",
		Short: "make a relay of a backup, in a folder that has none",
		Long: "It goes on in a new custody log: how far the old one went after the backup nobody can say,\n" +
			"and two receipts of one index would be a fork. Join tickets and bans made since are gone.",
		Example: "  sealbridge relay restore relay-2026-12-01.backup --dir /etc/sealbridge",
		Args:    cobra.ExactArgs(1),
		RunE:    func(c *cobra.Command, args []string) error { return a.restoreRelay(c.Context(), args[0], dir, f.store) },
	}
	c.Flags().StringVar(&dir, "dir", ".", "folder for relay.key and relay.yaml")
	return c
}

func (a *app) restoreRelay(ctx context.Context, from, dir, store string) error {
	in, err := os.Open(from)
	if err != nil {
		return &problem{err: unopened(from, err), exit: exitUsage}
	}
	defer in.Close()
	z, err := gzip.NewReader(in)
	if err != nil {
		return &spec.Error{Reason: spec.Malformed, Path: from, Err: err}
	}
	files, rest, err := readRelayFiles(from, z)
	if err != nil {
		return err
	}
	defer rest.Close()
	r, made, err := a.placeRelay(files, dir, store)
	if err == nil {
		var c server.Config
		if c, err = r.config(); err == nil {
			if c.Signer, err = readRelayKey(r.Key); err == nil {
				var about server.About
				if about, err = server.Restore(ctx, c, rest); err == nil {
					return a.sayRestored(about, r)
				}
			}
		}
	}
	for _, p := range made {
		os.Remove(p) //nolint:errcheck // the first error is the one to tell
	}
	return err
}

// readRelayFiles reads the key and the configuration, which stand first; rest
// is the tar from there on.
func readRelayFiles(from string, z io.Reader) (files map[string][]byte, rest io.ReadCloser, err error) {
	files = map[string][]byte{}
	pr, pw := io.Pipe()
	r := tar.NewReader(z)
	for {
		h, err := r.Next()
		if err != nil {
			return nil, nil, &spec.Error{Reason: spec.Malformed, Path: from, Err: errors.New("the backup is cut")}
		}
		if h.Name != relayKeyName && h.Name != relayConfigName {
			go func() { pw.CloseWithError(copyTar(tar.NewWriter(pw), r, h)) }()
			return files, pr, nil
		}
		if files[h.Name], err = io.ReadAll(io.LimitReader(r, maxRelayFile)); err != nil {
			return nil, nil, &spec.Error{Reason: spec.Malformed, Path: from, Err: err}
		}
	}
}

// copyTar copies from the entry h on.
func copyTar(w *tar.Writer, r *tar.Reader, h *tar.Header) (err error) {
	for err == nil {
		if err = w.WriteHeader(h); err == nil {
			if _, err = io.Copy(w, r); err == nil {
				h, err = r.Next()
			}
		}
	}
	if errors.Is(err, io.EOF) {
		return w.Close()
	}
	return err
}

// placeRelay writes the files where the relay looks for them, over nothing.
func (a *app) placeRelay(files map[string][]byte, dir, store string) (r relayFile, made []string, err error) {
	place := func(path string, b []byte) error {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return unopened(path, err)
		}
		err := writeOnce(path, b, 0o600)
		if err == nil {
			made = append(made, path)
		}
		return err
	}
	flags := relayFlags{store: store}
	if b := files[relayConfigName]; b != nil {
		flags.config = filepath.Join(dir, relayConfigName)
		if err := place(flags.config, b); err != nil {
			return r, made, err
		}
	} else if store == "" {
		flags.store = dir
	}
	if r, err = a.readRelay(flags); err != nil {
		return r, made, err
	}
	return r, made, place(r.Key, files[relayKeyName])
}

func (a *app) sayRestored(about server.About, r relayFile) error {
	if a.json {
		return a.emit(about)
	}
	start := "sealbridge relay --store " + r.Store.Dir
	if r.from != "" {
		start = "sealbridge relay --config " + r.from
	}
	a.print("relay %s of %s: %s\nreceipts         go on in a new log; %s of the old are kept\nmail             its senders send it again\nstart            %s\n", shortDID(about.Relay),
		about.At.UTC().Format("2 Jan 2006 15:04 UTC"), counted(about.Members, "member"), counted(int(leavesOf(about)), "receipt"), start)
	return nil
}
