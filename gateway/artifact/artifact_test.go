package artifact

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"sealbridge/manifest"
	"sealbridge/signing"
	"sealbridge/signing/box"
	"sealbridge/spec"
)

func open(t testing.TB) *Store {
	t.Helper()
	s, err := Open(filepath.Join(t.TempDir(), "artifacts"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func put(t testing.TB, s *Store, name string, b []byte) manifest.ArtifactRef {
	t.Helper()
	ref, err := s.Put(t.Context(), name, "", bytes.NewReader(b), 0)
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

func wantReason(t *testing.T, what string, err error, want spec.Reason) {
	t.Helper()
	if got := spec.ReasonOf(err); got != want {
		t.Errorf("%s: reason %q (%v), want %q", what, got, err, want)
	}
}

// tree lists everything under dir with its bytes; links and folders by kind.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		if d.Type().IsRegular() {
			b, err := os.ReadFile(path)
			out[rel] = string(b)
			return err
		}
		out[rel] = d.Type().String()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func chance(seed uint64) io.Reader { return rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)}) }

var errCut = errors.New("connection cut")

// depot is a relay's store of chunks in memory. After cut calls it fails.
type depot struct {
	mu     sync.Mutex
	chunks map[string][]byte
	calls  int
	cut    int                          // 0: never
	asked  map[int]int                  // gets, by chunk
	put    map[int]int                  // puts, by chunk
	says   func(runs [][2]int) [][2]int // what the relay says it has; nil: the truth
}

func newDepot() *depot {
	return &depot{chunks: map[string][]byte{}, asked: map[int]int{}, put: map[int]int{}}
}

func (d *depot) call() error {
	if d.calls++; d.cut > 0 && d.calls > d.cut {
		return errCut
	}
	return nil
}

func (d *depot) PutChunk(_ context.Context, _ signing.DID, id string, n int, b []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	key := fmt.Sprintf("%s/%d", id, n)
	if err := d.call(); err != nil {
		return err
	}
	d.put[n]++
	if d.chunks[key] == nil {
		d.chunks[key] = bytes.Clone(b)
	}
	return nil
}

func (d *depot) GetChunk(_ context.Context, _ signing.DID, id string, n int) ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.call(); err != nil {
		return nil, err
	}
	d.asked[n]++
	b, ok := d.chunks[fmt.Sprintf("%s/%d", id, n)]
	if !ok {
		return nil, spec.Refuse(spec.NotFound, "", "no such chunk")
	}
	return bytes.Clone(b), nil
}

func (d *depot) HasChunks(_ context.Context, _ signing.DID, id string) ([][2]int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var runs [][2]int
	for n := range 1 << 14 {
		if d.chunks[fmt.Sprintf("%s/%d", id, n)] != nil {
			runs = append(runs, [2]int{n, n})
		}
	}
	if d.says != nil {
		runs = d.says(runs)
	}
	return runs, d.call()
}

func (d *depot) DropChunks(_ context.Context, id string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(d.chunks, func(key string, _ []byte) bool { return strings.HasPrefix(key, id+"/") })
	return d.call()
}

var sender = signing.NewKey([32]byte{2}).DID()

var peer = signing.NewKey([32]byte{1}).DID()

// sent seals b at one store and puts it into a depot.
func sent(t *testing.T, b []byte) (*depot, Transfer, manifest.ArtifactRef) {
	t.Helper()
	s, d := open(t), newDepot()
	ref := put(t, s, "data.csv", b)
	out, err := s.Seal(t.Context(), ref.Digest, chance(1))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Upload(t.Context(), d, sender, peer, out); err != nil {
		t.Fatal(err)
	}
	in, err := Incoming(out.FileKey(), ref)
	if err != nil || in != out {
		t.Fatalf("Incoming(FileKey) = %+v, %v, want %+v", in, err, out)
	}
	return d, in, ref
}

func random(n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{byte(n)}).Read(b)
	return b
}

func TestAFileArrivesAsItWasSent(t *testing.T) {
	for _, size := range []int{0, 1, box.ChunkSize - 1, box.ChunkSize, box.ChunkSize + 1, 20*box.ChunkSize + 7} {
		b := random(size)
		d, in, ref := sent(t, b)
		s := open(t)
		if err := s.Download(t.Context(), d, peer, in); err != nil {
			t.Fatalf("%d bytes: Download = %v", size, err)
		}
		got, err := s.Read(ref.Digest, MaxSize)
		if err != nil || !bytes.Equal(got, b) {
			t.Errorf("%d bytes: Read = %d bytes, %v", size, len(got), err)
		}
		if left := tree(t, filepath.Join(s.root.Name(), incomingDir)); len(left) != 1 {
			t.Errorf("quarantine holds %v", slices.Collect(maps.Keys(left)))
		}
		calls := d.calls
		if err := s.Download(t.Context(), d, peer, in); err != nil || d.calls != calls {
			t.Errorf("a second Download = %v with %d calls, want none", err, d.calls-calls)
		}
	}
}

func TestATransferGoesOnWhereItWasCut(t *testing.T) {
	b := random(40 * box.ChunkSize)
	from, d := open(t), newDepot()
	ref := put(t, from, "data.csv", b)
	out, err := from.Seal(t.Context(), ref.Digest, chance(1))
	if err != nil {
		t.Fatal(err)
	}
	d.cut = 20
	if err := from.Upload(t.Context(), d, sender, peer, out); spec.ReasonOf(err) != spec.Unavailable || !errors.Is(err, errCut) {
		t.Fatalf("a cut Upload = %v, want unavailable", err)
	}
	if kept := from.Progress(out); kept == 0 || kept > 20*box.ChunkSize {
		t.Errorf("Progress of a cut Upload = %d", kept)
	}
	d.cut = 0
	clear(d.put)
	kept := len(d.chunks)
	if err := from.Upload(t.Context(), d, sender, peer, out); err != nil || len(d.put) != 40-kept || d.put[39] != 1 {
		t.Fatalf("the second Upload = %v put %v, want the %d that were missing, once", err, d.put, 40-kept)
	}
	if got := from.Progress(out); got != int64(len(b)) {
		t.Errorf("Progress = %d, want %d", got, len(b))
	}
	to := open(t)
	d.cut = d.calls + 20
	wantReason(t, "a cut Download", to.Download(t.Context(), d, peer, out), spec.Unavailable)
	if to.Has(ref.Digest) {
		t.Fatalf("a part of a file is shown")
	}
	d.cut = 0
	clear(d.asked)
	// A new store over the same folder: nothing of the progress is in memory.
	again, err := Open(to.root.Name())
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if err := again.Download(t.Context(), d, peer, out); err != nil || !again.Has(ref.Digest) {
		t.Fatalf("the second Download = %v", err)
	}
	if d.asked[0] != 0 || d.asked[39] != 1 {
		t.Errorf("chunks asked for again: %v", d.asked)
	}
}

func TestSentAgainAreTheSameBytesUntilForgotten(t *testing.T) {
	s, d := open(t), newDepot()
	ref := put(t, s, "data.csv", random(3*box.ChunkSize))
	out, err := s.Seal(t.Context(), ref.Digest, chance(1))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Upload(t.Context(), d, sender, peer, out); err != nil {
		t.Fatal(err)
	}
	first := maps.Clone(d.chunks)
	clear(d.chunks)
	if kept, err := Kept(t.Context(), d, sender, out); kept || err != nil {
		t.Fatalf("Kept by a relay that lost its store = %t, %v", kept, err)
	}
	if err := s.Upload(t.Context(), d, sender, peer, out); err != nil || !maps.EqualFunc(first, d.chunks, bytes.Equal) {
		t.Errorf("sent again: other bytes, %v", err)
	}
	calls := d.calls
	if err := s.Upload(t.Context(), d, sender, peer, out); err != nil || d.calls-calls > 1 {
		t.Errorf("Upload of what is kept: %v after %d calls, want one question", err, d.calls-calls)
	}
	again, err := s.Seal(t.Context(), ref.Digest, chance(2))
	if err != nil || again.Key == out.Key || again.ID == out.ID {
		t.Errorf("a second transfer shares id or key: %v", err)
	}
	if err := s.Forget(out.ID); err != nil {
		t.Fatal(err)
	}
	wantReason(t, "forgotten", s.Upload(t.Context(), d, sender, peer, out), spec.NotFound)
}

func TestWhatIsNotThePromisedFileNeverShows(t *testing.T) {
	b := random(3*box.ChunkSize + 10)
	for name, test := range map[string]struct {
		change func(d *depot, in *Transfer)
		want   spec.Reason
	}{
		"tampered chunk": {func(d *depot, in *Transfer) { d.chunks[in.ID.s+"/1"][100] ^= 1 }, spec.BadDigest},
		"swapped chunks": {func(d *depot, in *Transfer) {
			d.chunks[in.ID.s+"/0"], d.chunks[in.ID.s+"/1"] = d.chunks[in.ID.s+"/1"], d.chunks[in.ID.s+"/0"]
		}, spec.BadDigest},
		"short chunk":    {func(d *depot, in *Transfer) { d.chunks[in.ID.s+"/0"] = d.chunks[in.ID.s+"/0"][:99] }, spec.Malformed},
		"huge chunk":     {func(d *depot, in *Transfer) { d.chunks[in.ID.s+"/0"] = make([]byte, 1<<20) }, spec.TooLarge},
		"missing chunk":  {func(d *depot, in *Transfer) { delete(d.chunks, in.ID.s+"/2") }, spec.NotFound},
		"another key":    {func(_ *depot, in *Transfer) { in.Key[0] ^= 1 }, spec.BadDigest},
		"another digest": {func(_ *depot, in *Transfer) { in.Digest = signing.DigestOf([]byte("x")) }, spec.BadDigest},
		"wrong size":     {func(_ *depot, in *Transfer) { in.Size++ }, spec.BadDigest},
	} {
		d, in, ref := sent(t, b)
		good := in
		test.change(d, &in)
		s := open(t)
		wantReason(t, name, s.Download(t.Context(), d, peer, in), test.want)
		if s.Has(ref.Digest) || s.Has(in.Digest) {
			t.Errorf("%s: it shows", name)
		}
		// Once the relay has the right chunks, the same transfer goes through.
		d2, _, _ := sent(t, b)
		if err := s.Download(t.Context(), d2, peer, good); err != nil || !s.Has(ref.Digest) {
			t.Errorf("%s: afterwards Download = %v", name, err)
		}
	}
}

func TestAFullDiskLeavesNothingHalf(t *testing.T) {
	b := random(9 * box.ChunkSize)
	d, in, ref := sent(t, b)
	s := open(t)
	full := func(w io.Writer) io.Writer { return &fullDisk{w: w, left: 100_000} }
	s.wrap = full
	wantReason(t, "Download", s.Download(t.Context(), d, peer, in), spec.Unavailable)
	_, err := s.Put(t.Context(), "x", "", bytes.NewReader(b), 0)
	wantReason(t, "Put", err, spec.Unavailable)
	if s.Has(ref.Digest) {
		t.Fatalf("a half file shows")
	}
	s.wrap = func(w io.Writer) io.Writer { return w }
	if err := s.Download(t.Context(), d, peer, in); err != nil {
		t.Fatalf("with room again: %v", err)
	}
	s.wrap = full
	_, err = s.Seal(t.Context(), ref.Digest, chance(2))
	wantReason(t, "Seal", err, spec.Unavailable)
	if left := tree(t, filepath.Join(s.root.Name(), outgoingDir)); len(left) != 1 {
		t.Errorf("outgoing holds %d entries", len(left)-1)
	}
	above := t.TempDir()
	small := put(t, open(t), "a", nil)
	s.wrap = func(w io.Writer) io.Writer { return w }
	put(t, s, "a", nil)
	s.wrap = full
	wantReason(t, "Release", s.Release(t.Context(), filepath.Join(above, "out"), []manifest.ArtifactRef{small, ref}), spec.Unavailable)
	if left := tree(t, above); len(left) != 1 {
		t.Errorf("a failed release leaves %v", left)
	}
}

type fullDisk struct {
	w    io.Writer
	left int
}

func (f *fullDisk) Write(p []byte) (int, error) {
	if len(p) > f.left {
		return 0, syscall.ENOSPC
	}
	f.left -= len(p)
	return f.w.Write(p)
}

// What a relay says it has is believed within reason, and what it never has ends.
func TestUploadPutsWhatARelayDoesNotSayItHas(t *testing.T) {
	for _, test := range []struct {
		runs [][2]int
		want []int
	}{
		{nil, []int{0, 1, 2, 3, 4}}, {[][2]int{{0, 4}}, nil}, {[][2]int{{0, 1}, {3, 3}}, []int{2, 4}}, {[][2]int{{0, 1 << 30}}, nil},
		{[][2]int{{-5, 3}}, []int{4}}, {[][2]int{{0, 4}, {0, 4}}, nil}, {[][2]int{{4, 2}}, []int{0, 1, 2, 3, 4}}, {[][2]int{{20, 30}}, []int{0, 1, 2, 3, 4}},
	} {
		s, d := open(t), newDepot()
		ref := put(t, s, "data.csv", random(5*box.ChunkSize))
		out, err := s.Seal(t.Context(), ref.Digest, chance(1))
		if err != nil {
			t.Fatal(err)
		}
		said := false
		d.says = func(have [][2]int) [][2]int {
			if !said {
				said = true
				return test.runs
			}
			return [][2]int{{0, 4}}
		}
		if err := s.Upload(t.Context(), d, sender, peer, out); err != nil {
			t.Fatal(err)
		}
		if got := slices.Sorted(maps.Keys(d.put)); !slices.Equal(got, test.want) {
			t.Errorf("a relay that says %v is given %v, want %v", test.runs, got, test.want)
		}
		d.says = func([][2]int) [][2]int { return nil }
		wantReason(t, "a relay that keeps nothing", s.Upload(t.Context(), d, sender, peer, out), spec.Unavailable)
		d.cut = 1
		_, err = Kept(t.Context(), d, sender, out)
		wantReason(t, "cut", err, spec.Unavailable)
	}
}

func TestIncomingRefusesWhatWasNotPromised(t *testing.T) {
	ref := manifest.ArtifactRef{Name: "a", Digest: signing.DigestOf([]byte("x")), SizeBytes: 70000}
	good := manifest.FileKey{Digest: ref.Digest, Transfer: strings.Repeat("0", 32), Key: strings.Repeat("A", 43), Chunks: 2}
	if _, err := Incoming(good, ref); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*manifest.FileKey){
		"digest": func(k *manifest.FileKey) { k.Digest = signing.DigestOf(nil) }, "chunks": func(k *manifest.FileKey) { k.Chunks = 3 },
		"transfer": func(k *manifest.FileKey) { k.Transfer = "../../../../../../../../etc/passw" }, "upper": func(k *manifest.FileKey) { k.Transfer = strings.Repeat("A", 32) },
		"key": func(k *manifest.FileKey) { k.Key = strings.Repeat("A", 42) + "B" }, "short key": func(k *manifest.FileKey) { k.Key = "AA" },
	} {
		k := good
		change(&k)
		if _, err := Incoming(k, ref); err == nil {
			t.Errorf("another %s is accepted", name)
		}
	}
}

func TestReleaseMakesANewFolderOfCheckedFiles(t *testing.T) {
	s, above := open(t), t.TempDir()
	files := []manifest.ArtifactRef{put(t, s, "report.md", []byte("# hi")), put(t, s, "data/a.csv", []byte("1,2")), put(t, s, "data/b.zip", []byte("PK"))}
	dir := filepath.Join(above, "out")
	if err := s.Release(t.Context(), dir, files); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{".": "d---------", "report.md": "# hi", "data": "d---------", filepath.Join("data", "a.csv"): "1,2", filepath.Join("data", "b.zip"): "PK"}
	if got := tree(t, dir); !maps.Equal(got, want) {
		t.Errorf("released %v, want %v", got, want)
	}
	if info, err := os.Stat(filepath.Join(dir, "report.md")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v, want 0600", info.Mode(), err)
	}
	before := tree(t, above)
	wantReason(t, "twice", s.Release(t.Context(), dir, files), spec.NotPermitted)
	if !maps.Equal(tree(t, above), before) {
		t.Errorf("a refused release changed something")
	}
}

func TestReleaseNeverWritesOutside(t *testing.T) { // B021
	s := open(t)
	ref := put(t, s, "x", []byte("x"))
	named := func(names ...string) (out []manifest.ArtifactRef) {
		for _, n := range names {
			out = append(out, manifest.ArtifactRef{Name: n, Digest: ref.Digest, SizeBytes: 1})
		}
		return out
	}
	gone := named("a")
	gone[0].Digest = signing.DigestOf([]byte("not here"))
	wrongSize := named("a")
	wrongSize[0].SizeBytes = 2
	for name, test := range map[string]struct {
		prepare func(above, outside string) error
		files   []manifest.ArtifactRef
		want    spec.Reason
	}{
		"a: the folder holds a link": {func(above, outside string) error {
			return errors.Join(os.Mkdir(filepath.Join(above, "out"), 0o700), os.Symlink(outside, filepath.Join(above, "out", "latest")))
		}, named("latest/report.csv"), spec.NotPermitted},
		"a: the folder is a link": {func(above, outside string) error { return os.Symlink(outside, filepath.Join(above, "out")) }, named("report.csv"), spec.NotPermitted},
		"a: the folder is a dead link": {func(above, outside string) error {
			return os.Symlink(filepath.Join(outside, "none"), filepath.Join(above, "out"))
		}, named("report.csv"), spec.NotPermitted},
		"the folder is there":      {func(above, _ string) error { return os.Mkdir(filepath.Join(above, "out"), 0o700) }, named("a"), spec.NotPermitted},
		"b: a file, then below it": {nil, named("a", "a/x"), spec.Malformed},
		"b: below, then the file":  {nil, named("a/x", "A"), spec.Malformed},
		"c: one name twice":        {nil, named("a", "a"), spec.Malformed},
		"d: up":                    {nil, named("ok", "../x"), spec.Malformed},
		"d: up inside":             {nil, named("ok", "a/../../x"), spec.Malformed},
		"e: absolute":              {nil, named("ok", "/tmp/x"), spec.Malformed},
		"e: a drive":               {nil, named("ok", `C:\x`), spec.Malformed},
		"f: case":                  {nil, named("Report.csv", "report.csv"), spec.Malformed},
		"a device":                 {nil, named("ok", "aux.txt"), spec.Malformed},
		"hidden":                   {nil, named("ok", ".git/config"), spec.Malformed},
		"an option":                {nil, named("-rf"), spec.Malformed},
		"not here":                 {nil, append(named("ok"), gone...), spec.NotFound},
		"not of the promised size": {nil, append(named("ok"), wrongSize...), spec.BadDigest},
	} {
		above, outside := t.TempDir(), t.TempDir()
		if test.prepare != nil {
			if err := test.prepare(above, outside); err != nil {
				t.Fatal(err)
			}
		}
		before := tree(t, above)
		wantReason(t, name, s.Release(t.Context(), filepath.Join(above, "out"), test.files), test.want)
		if got := tree(t, above); !maps.Equal(got, before) {
			t.Errorf("%s: left %v, want %v", name, got, before)
		}
		if got := tree(t, outside); len(got) != 1 {
			t.Errorf("%s: wrote outside: %v", name, got)
		}
	}
}

// The inputs of B021 inside an archive: it is a file like any other, released as
// the bytes that were checked, and nothing of it is ever unpacked (V3a).
func TestAnArchiveIsNeverUnpacked(t *testing.T) { // B021
	var zipped, tarred bytes.Buffer
	z, a := zip.NewWriter(&zipped), tar.NewWriter(&tarred)
	link := func(name, target string) {
		h := &zip.FileHeader{Name: name}
		h.SetMode(fs.ModeSymlink | 0o777)
		w, err := z.CreateHeader(h)
		if err == nil {
			_, err = io.WriteString(w, target)
		}
		if err = errors.Join(err, a.WriteHeader(&tar.Header{Name: name, Linkname: target, Typeflag: tar.TypeSymlink})); err != nil {
			t.Fatal(err)
		}
	}
	file := func(name string) {
		w, err := z.Create(name)
		if err == nil {
			_, err = io.WriteString(w, "x")
		}
		if err = errors.Join(err, a.WriteHeader(&tar.Header{Name: name, Size: 1, Mode: 0o644})); err == nil {
			_, err = io.WriteString(a, "x")
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	file("out/latest/report.csv")
	link("a", "/tmp")
	file("a/x")
	file("a")
	file("../x")
	file("/tmp/x")
	file("Report.csv")
	file("report.csv")
	link("inside", "report.csv")
	if err := errors.Join(z.Close(), a.Close()); err != nil {
		t.Fatal(err)
	}
	s, above := open(t), t.TempDir()
	files := []manifest.ArtifactRef{put(t, s, "all.zip", zipped.Bytes()), put(t, s, "all.tar", tarred.Bytes())}
	if err := s.Release(t.Context(), filepath.Join(above, "out"), files); err != nil {
		t.Fatal(err)
	}
	got := tree(t, above)
	want := map[string]string{".": got["."], "out": got["out"], filepath.Join("out", "all.zip"): zipped.String(), filepath.Join("out", "all.tar"): tarred.String()}
	if !maps.Equal(got, want) {
		t.Errorf("released %v", slices.Sorted(maps.Keys(got)))
	}
}

func TestAChangedFileIsNotReleasedReadOrSent(t *testing.T) {
	s := open(t)
	ref := put(t, s, "a", []byte("checked"))
	at, err := s.Path(ref.Digest)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at, []byte("changed"), 0o600); err != nil {
		t.Fatal(err)
	}
	above := t.TempDir()
	wantReason(t, "Release", s.Release(t.Context(), filepath.Join(above, "out"), []manifest.ArtifactRef{ref}), spec.BadDigest)
	_, err = s.Read(ref.Digest, 100)
	wantReason(t, "Read", err, spec.BadDigest)
	_, err = s.Seal(t.Context(), ref.Digest, chance(3))
	wantReason(t, "Seal", err, spec.BadDigest)
	if len(tree(t, above)) != 1 || len(tree(t, filepath.Join(s.root.Name(), outgoingDir))) != 1 {
		t.Errorf("something is left")
	}
}

func TestImportTakesRegularFilesThatArePermitted(t *testing.T) {
	s, dir := open(t), t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.WriteFile(path("plain.csv"), []byte("1"), 0o644))
	must(os.WriteFile(path(".secret"), []byte("2"), 0o644))
	must(os.Mkdir(path(".hidden"), 0o755))
	must(os.WriteFile(filepath.Join(path(".hidden"), "in.csv"), []byte("3"), 0o644))
	must(os.Symlink(path("plain.csv"), path("link.csv")))
	must(os.Symlink(path(".secret"), path("innocent.csv")))
	must(os.Symlink(path("none"), path("dead.csv")))
	must(os.Mkdir(path("folder"), 0o755))
	for _, test := range []struct {
		in   Import
		want spec.Reason
	}{
		{Import{Path: path("plain.csv")}, ""}, {Import{Path: path("link.csv")}, ""},
		{Import{Path: path("innocent.csv")}, spec.PolicyDenied}, {Import{Path: path(".secret"), Name: "x"}, spec.PolicyDenied},
		{Import{Path: filepath.Join(path(".hidden"), "in.csv")}, spec.PolicyDenied},
		{Import{Path: path(".secret"), Name: "x", Hidden: true}, ""}, {Import{Path: path(".secret"), Hidden: true}, spec.Malformed},
		{Import{Path: path("dead.csv")}, spec.NotFound}, {Import{Path: path("none")}, spec.NotFound},
		{Import{Path: path("folder")}, spec.NotPermitted}, {Import{Path: path("plain.csv"), Name: "../x"}, spec.Malformed},
	} {
		ref, resolved, err := s.Import(t.Context(), test.in)
		wantReason(t, test.in.Path+" as "+test.in.Name, err, test.want)
		if err == nil && (!s.Has(ref.Digest) || ref.SizeBytes != 1 || resolved == path("link.csv")) {
			t.Errorf("Import(%v) = %+v, %s", test.in, ref, resolved)
		}
	}
	ref, _, err := s.Import(t.Context(), Import{Path: path("plain.csv")})
	if want := (manifest.ArtifactRef{Name: "plain.csv", Digest: signing.DigestOf([]byte("1")), MediaType: "text/csv", SizeBytes: 1}); err != nil || ref != want {
		t.Errorf("Import = %+v, %v, want %+v", ref, err, want)
	}
}

func TestPutHoldsItsLimit(t *testing.T) {
	s := open(t)
	if _, err := s.Put(t.Context(), "a", "", strings.NewReader("12345"), 5); err != nil {
		t.Errorf("5 of 5 bytes: %v", err)
	}
	_, err := s.Put(t.Context(), "a", "", strings.NewReader("123456"), 5)
	wantReason(t, "6 of 5 bytes", err, spec.TooLarge)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = s.Put(ctx, "a", "", strings.NewReader("1"), 5)
	wantReason(t, "cancelled", err, spec.Unavailable)
	if left := tree(t, filepath.Join(s.root.Name(), incomingDir)); len(left) != 1 {
		t.Errorf("left over: %v", left)
	}
}

func TestOpeningSweepsWhatACrashLeft(t *testing.T) {
	s := open(t)
	for _, name := range []string{"incoming/new-x", "outgoing/x.new", "incoming/" + strings.Repeat("0", 32)} {
		if err := s.root.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	again, err := Open(s.root.Name())
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	got := tree(t, s.root.Name())
	if _, kept := got[filepath.Join("incoming", strings.Repeat("0", 32))]; !kept || len(got) != 5 {
		t.Errorf("after a crash: %v", got)
	}
}

func TestWhatIsPutComesBack(t *testing.T) {
	s := open(t)
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")
		ref, err := s.Put(context.Background(), "a.bin", "", bytes.NewReader(b), 0)
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.Read(ref.Digest, int64(len(b)))
		if err != nil || !bytes.Equal(got, b) || ref.SizeBytes != int64(len(b)) || ref.Digest != signing.DigestOf(b) {
			t.Fatalf("Put, Read = %v, %+v, %v", got, ref, err)
		}
	})
}

func BenchmarkTransfer(b *testing.B) {
	s, d := open(b), newDepot()
	data := random(16 << 20)
	ref := put(b, s, "x", data)
	b.SetBytes(int64(len(data)))
	for i := 0; b.Loop(); i++ {
		out, err := s.Seal(b.Context(), ref.Digest, chance(uint64(i)))
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Upload(b.Context(), d, sender, peer, out); err != nil {
			b.Fatal(err)
		}
		to := open(b)
		if err := to.Download(b.Context(), d, peer, out); err != nil {
			b.Fatal(err)
		}
		clear(d.chunks)
		s.Forget(out.ID)
		to.Remove(ref.Digest)
	}
}
