package gateway

import (
	"sealbridge/manifest"
	"sealbridge/spec"
)

// checkInput holds the structured input of a contract against its schema
// (M12), once its file is here; a contract without one is checked as {}.
func (g *Gateway) checkInput(m manifest.TaskManifest) error {
	ref, ok := m.Input()
	if !ok {
		return m.CheckInput(nil)
	}
	if ref.SizeBytes > manifest.MaxInput {
		return spec.Refuse(spec.TooLarge, "/"+manifest.InputName, "1 MiB")
	}
	file, err := g.Files.Read(ref.Digest, manifest.MaxInput)
	if err != nil {
		return err
	}
	return m.CheckInput(file)
}

// checkInputEarly is what can be said of it before the files are here: that the
// schema wants one and the contract brings none, or that it is too large.
func checkInputEarly(m manifest.TaskManifest) error {
	ref, ok := m.Input()
	switch {
	case !ok:
		return m.CheckInput(nil)
	case ref.SizeBytes > manifest.MaxInput:
		return spec.Refuse(spec.TooLarge, "/"+manifest.InputName, "1 MiB")
	}
	return nil
}
