package main

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"sealbridge/manifest"
)

var _ = register(versionCommand)

// build is what this binary is, for the working papers of an auditor.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision"`
	Modified bool   `json:"modified"` // built from a tree with changes
	Protocol string `json:"protocol"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	SHA256   string `json:"sha256"` // of the running binary
}

func versionCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		GroupID: "hand",
		Short:   "say which build this is, with the SHA-256 of the running binary",
		Example: "  sealbridge version --json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			b, err := thisBuild()
			if err != nil {
				return err
			}
			if a.json {
				return a.emit(b)
			}
			revision := b.Revision
			if revision == "" {
				revision = "unknown"
			} else if b.Modified {
				revision += " and changes"
			}
			a.print("sealbridge %s   protocol %s\n", b.Version, b.Protocol)
			a.print("revision   %s\nbuilt by   %s for %s\nsha256     %s\n", revision, b.Go, b.Platform, b.SHA256)
			return nil
		},
	}
}

func thisBuild() (build, error) {
	b := builtFrom()
	sum, err := selfSum()
	b.SHA256 = sum
	return b, err
}

// builtFrom is the build without the digest of its binary.
func builtFrom() build {
	b := build{Version: "(devel)", Protocol: manifest.ProtocolVersion, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		if info.Main.Version != "" {
			b.Version = info.Main.Version
		}
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				b.Revision = s.Value
			case "vcs.modified":
				b.Modified = s.Value == "true"
			}
		}
	}
	return b
}

func selfSum() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", err
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
