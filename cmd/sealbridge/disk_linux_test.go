package main

import (
	"os"
	"syscall"
	"testing"
)

// smallDisk mounts a disk of its own at a folder.
func smallDisk(t *testing.T, at, size string) {
	t.Helper()
	err := os.MkdirAll(at, 0o700)
	if err == nil {
		err = syscall.Mount("tmpfs", at, "tmpfs", 0, "mode=0700,size="+size)
	}
	if err != nil {
		noSmallDisk(t, err.Error())
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(at, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmounting %s: %v", at, err)
		}
	})
}

func noSmallDisk(t *testing.T, why string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatalf("a full disk could not be tested: mounting a small one needs root: %s", why)
	}
	t.Skipf("a full disk was not tested: mounting a small one needs root: %s", why)
}
