//go:build !unix

package artifact

const openFlags = 0
