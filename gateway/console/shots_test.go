package console_test

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// keep writes a picture into the folder of -shots with at most 256 colours: the
// most frequent as they are, edges of letters by the nearest of them. A page is
// then a fourth of its size, and looks the same.
func keep(t *testing.T, name string, shot []byte) {
	t.Helper()
	if *shots == "" {
		return
	}
	full, err := png.Decode(bytes.NewReader(shot))
	must(t, err)
	count := map[color.Color]int{}
	box := full.Bounds()
	for y := box.Min.Y; y < box.Max.Y; y++ {
		for x := box.Min.X; x < box.Max.X; x++ {
			count[full.At(x, y)]++
		}
	}
	var colours color.Palette
	for c := range count {
		colours = append(colours, c)
	}
	slices.SortFunc(colours, func(a, b color.Color) int { return count[b] - count[a] })
	colours = colours[:min(len(colours), 256)]
	index := map[color.Color]uint8{}
	few := image.NewPaletted(box, colours)
	for y := box.Min.Y; y < box.Max.Y; y++ {
		for x := box.Min.X; x < box.Max.X; x++ {
			c := full.At(x, y)
			i, ok := index[c]
			if !ok {
				i = uint8(colours.Index(c))
				index[c] = i
			}
			few.SetColorIndex(x, y, i)
		}
	}
	var b bytes.Buffer
	must(t, (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&b, few))
	must(t, os.MkdirAll(*shots, 0o755))
	must(t, os.WriteFile(filepath.Join(*shots, name+".png"), b.Bytes(), 0o644))
}
