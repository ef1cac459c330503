//go:build !unix

package runner

// keepDescriptors has nothing to do: a child of Go's inherits only the handles it is given.
func keepDescriptors() error { return nil }
