package manifest

import (
	"sealbridge/manifest/schema"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// InputName is the artifact that carries the structured input; there is no other channel (M12).
const InputName = "input.json"

// MaxInput bounds its file in bytes: a document in a free layout (D4).
const MaxInput = 1 << 20

// Input is the artifact that carries the structured input, if there is one.
func (m TaskManifest) Input() (ref ArtifactRef, ok bool) {
	for _, ref := range m.IO.InputArtifacts {
		if ref.Name == InputName {
			return ref, true
		}
	}
	return ArtifactRef{}, false
}

// CheckInput holds the bytes of the structured input against inputSchema; none
// at all means {} (M12). They may be laid out freely, as files are.
func (m TaskManifest) CheckInput(file []byte) error {
	v := jcs.EmptyObject
	if file != nil {
		var err error
		if v, err = jcs.Canonicalize(file); err != nil {
			return spec.At("/"+InputName, err)
		}
	}
	s, err := schema.Parse(m.IO.InputSchema)
	if err != nil {
		return spec.At("/io/inputSchema", err)
	}
	return spec.At("/"+InputName, s.Validate(v))
}
