//go:build unix && !linux

package runner

// keepDescriptors marks every descriptor past stderr as ours alone (X3).
func keepDescriptors() error { return eachDescriptor("/dev/fd") }
