package artifact

import (
	"path"
	"strings"
)

var mediaTypes = map[string]string{
	".csv": "text/csv", ".html": "text/html", ".md": "text/markdown", ".txt": "text/plain", ".xml": "application/xml",
	".json": "application/json", ".yaml": "application/yaml", ".pdf": "application/pdf", ".zip": "application/zip",
	".gz": "application/gzip", ".tar": "application/x-tar", ".wasm": "application/wasm",
	".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".svg": "image/svg+xml", ".webp": "image/webp",
	".mp3": "audio/mpeg", ".mp4": "video/mp4", ".wav": "audio/wav",
}

// mediaTypeOf goes by the name alone, from a list of ours: the same on every machine.
func mediaTypeOf(name string) string {
	if t, ok := mediaTypes[strings.ToLower(path.Ext(name))]; ok {
		return t
	}
	return "application/octet-stream"
}
