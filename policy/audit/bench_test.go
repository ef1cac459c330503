package audit_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"sealbridge/manifest"
	"sealbridge/policy/audit"
)

// long is a task with so many reports of progress between its beginning and its end.
func long(b *testing.B, progress int) string {
	s := newStory(b).propose().ack(ben).accept().ack(ann)
	s.say(ben, manifest.Started{}, nil)
	for i := range progress {
		s.say(ben, manifest.Progressed{Checkpoint: "on the way", Usage: used(int64(i)), Waiting: "nobody"}, nil)
	}
	return s.deliver().ack(ann).complete().ack(ben).export(ann)
}

func BenchmarkVerify(b *testing.B) {
	for _, n := range []int{10, 1000} {
		text := long(b, n)
		for _, cores := range []int{1, runtime.NumCPU()} {
			b.Run(fmt.Sprintf("%d events/%d cores", n, cores), func(b *testing.B) {
				b.SetBytes(int64(len(text)))
				b.ReportAllocs()
				for b.Loop() {
					r, err := audit.Verify(strings.NewReader(text), audit.Options{Cores: cores})
					if err != nil || !r.Binding {
						b.Fatalf("%v, %+v", err, r.Findings)
					}
				}
			})
		}
	}
}
