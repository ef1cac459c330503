package spec

import (
	"embed"
	"strings"
)

//go:embed schemas/*.schema.json
var schemas embed.FS

const schemaSuffix = ".schema.json"

// Schema returns the JSON Schema (2020-12) of one kind of document:
// task-manifest, or the name in a type sealbridge/NAME.
func Schema(name string) ([]byte, bool) {
	b, err := schemas.ReadFile("schemas/" + name + schemaSuffix)
	return b, err == nil
}

// SchemaNames lists what [Schema] has, in alphabetical order.
func SchemaNames() []string {
	entries, err := schemas.ReadDir("schemas")
	if err != nil {
		panic("spec: " + err.Error()) // embedded: it is there or the program did not build
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = strings.TrimSuffix(e.Name(), schemaSuffix)
	}
	return names
}
