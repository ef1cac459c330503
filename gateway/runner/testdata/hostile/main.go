// Command hostile is a module that tries to get out, or to take too much. What
// it reached it says on stdout.
package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	switch os.Args[1] {
	case "out":
		for _, path := range os.Args[2:] {
			if b, err := os.ReadFile(path); err == nil {
				fmt.Println("read", path, string(b))
			}
		}
		for _, err := range []error{
			os.Symlink("/etc", "tmp/etc"), os.Symlink("../../..", "out/up"), os.Link("in/x", "out/x"),
			os.WriteFile("in/new", nil, 0o600), os.WriteFile("in/x", nil, 0o600), os.Remove("in/x"), os.Rename("in", "tmp/in"), os.Rename("out", "tmp/out"),
			os.Mkdir("/in/d", 0o700),
		} {
			if err == nil {
				fmt.Println("went through")
			}
		}
		os.WriteFile("tmp/../../above", nil, 0o600) // the top is the top: it lies in the workspace
		if _, err := net.Dial("tcp", "127.0.0.1:1"); err == nil {
			fmt.Println("went through")
		}
		fmt.Println(strings.Join(os.Environ(), " "))
		filepath.WalkDir("/", func(path string, _ os.DirEntry, _ error) error { fmt.Println(path); return nil })
	case "memory":
		var all [][]byte
		for i := 0; ; i++ {
			all = append(all, make([]byte, 1<<20))
			all[i][0] = 1
		}
	case "disk":
		chunk := make([]byte, 1<<20)
		var held []*os.File
		for i := range 1000 { // also files without a name
			name := fmt.Sprint("tmp/", i)
			f, err := os.Create(name)
			if err == nil {
				held = append(held, f)
				err = os.Remove(name)
			}
			if err == nil {
				_, err = f.Write(chunk)
			}
			if err != nil {
				fmt.Println("stopped at", i, "MiB")
				break
			}
		}
		for _, f := range held {
			f.Close()
		}
		fmt.Println("after giving back:", os.WriteFile("out/one", chunk, 0o600) == nil)
	case "names":
		for i := range 100_000 {
			if err := os.Mkdir(fmt.Sprint("tmp/", i), 0o700); err != nil {
				fmt.Println("stopped at", i, "names")
				return
			}
		}
	case "loop":
		for {
		}
	case "flood":
		for {
			fmt.Println(strings.Repeat("x", 1000))
		}
	case "exit":
		fmt.Fprintln(os.Stderr, "so it ends")
		os.Exit(7)
	case "panic":
		panic("out of ideas")
	case "files":
		for name, text := range map[string]string{"out/a/b.txt": "b", "out/c.txt": "first"} {
			os.MkdirAll(filepath.Dir(name), 0o700)
			if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
				fmt.Println(err)
			}
		}
		f, err := os.OpenFile("out/c.txt", os.O_APPEND|os.O_WRONLY, 0)
		fmt.Fprint(f, " and second")
		fmt.Println(err, f.Close(), os.Rename("out/a/b.txt", "out/d.txt"), os.Remove("out/a"), os.Truncate("out/d.txt", 0))
		b, err := os.ReadFile("in/x")
		fmt.Println(string(b), err)
	}
}
