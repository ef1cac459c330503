package runner

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"
	"unsafe"

	"sealbridge/spec"
)

// The first process of a run listens inside its network, hands the listening
// sockets out through a pair of sockets, and closes its copies when it becomes
// the program. A socket stays in the network that it was made in, wherever its
// descriptor goes: what we accept here knocked in there. So nothing of ours
// runs beside the program, and the program has no descriptor of ours.

const (
	portsAt      = 3 // the descriptor at which the first process finds its end of the pair
	capNetAdmin  = 12
	siocgifflags = 0x8913
	siocsifflags = 0x8914
)

// entrance is our end of the pair.
type entrance struct {
	ports       []Port
	ours, there *os.File
}

// openEntrance gives the first process its end.
func openEntrance(cmd *exec.Cmd, ports []Port) (*entrance, error) {
	if len(ports) == 0 {
		return nil, nil
	}
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_SEQPACKET|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, &spec.Error{Reason: spec.Unavailable, Limit: "descriptors", Err: fmt.Errorf("making ports: %w", err)}
	}
	e := &entrance{ports: ports, ours: os.NewFile(uintptr(pair[0]), "ports"), there: os.NewFile(uintptr(pair[1]), "ports")}
	cmd.ExtraFiles = []*os.File{e.there} // it becomes portsAt
	return e, nil
}

// close gives both ends up: the first process did not start.
func (e *entrance) close() {
	if e != nil {
		e.ours.Close()
		e.there.Close()
	}
}

func numbers(ports []Port) (out []uint16) {
	for _, p := range ports {
		out = append(out, p.Number)
	}
	return out
}

// listeners waits for the sockets, one for each port and in their order. None
// come where the run could not begin; what it wrote to stderr says why.
func (e *entrance) listeners() ([]net.Listener, error) {
	e.there.Close() // by now the first process has it
	defer e.ours.Close()
	c, err := net.FileConn(e.ours)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	aside := make([]byte, syscall.CmsgSpace(4*maxPorts))
	_, n, _, _, err := c.(*net.UnixConn).ReadMsgUnix(make([]byte, 1), aside)
	if err != nil {
		return nil, err
	}
	var fds []int
	msgs, err := syscall.ParseSocketControlMessage(aside[:n])
	if err == nil && len(msgs) == 1 {
		fds, err = syscall.ParseUnixRights(&msgs[0])
	}
	var out []net.Listener
	for _, fd := range fds {
		f := os.NewFile(uintptr(fd), "port")
		l, lerr := net.FileListener(f) // a copy
		f.Close()
		if lerr != nil {
			err = lerr
			continue
		}
		out = append(out, l)
	}
	if err == nil && len(out) != len(e.ports) {
		err = fmt.Errorf("%d ports of %d", len(out), len(e.ports))
	}
	if err != nil {
		for _, l := range out {
			l.Close()
		}
		return nil, err
	}
	return out, nil
}

// listen opens the ports inside the run's own network and hands them out. It
// runs in the first process, while that may still set up a network.
func (s *stage) listen() error {
	if len(s.Ports) == 0 {
		return nil
	}
	syscall.CloseOnExec(portsAt)
	if err := loopback(); err != nil {
		return fmt.Errorf("setting up the loopback: %w", err)
	}
	var fds []int
	for _, n := range s.Ports {
		fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
		if err == nil {
			err = syscall.Bind(fd, &syscall.SockaddrInet4{Port: int(n), Addr: [4]byte{127, 0, 0, 1}})
		}
		if err == nil {
			err = syscall.Listen(fd, maxGuests)
		}
		if err != nil {
			return fmt.Errorf("opening port %d: %w", n, err)
		}
		fds = append(fds, fd)
	}
	if err := syscall.Sendmsg(portsAt, []byte{1}, syscall.UnixRights(fds...), nil, 0); err != nil {
		return fmt.Errorf("handing out the ports: %w", err)
	}
	return nil
}

// loopback switches lo on: a new network begins with it off.
func loopback() error {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	req := struct { // struct ifreq
		name  [16]byte
		flags uint16
		_     [22]byte
	}{name: [16]byte{'l', 'o'}}
	call := func(what uintptr) syscall.Errno {
		_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), what, uintptr(unsafe.Pointer(&req)))
		return errno
	}
	if errno := call(siocgifflags); errno != 0 {
		return errno
	}
	req.flags |= syscall.IFF_UP
	if errno := call(siocsifflags); errno != 0 {
		return errno
	}
	return nil
}
