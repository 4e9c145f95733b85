package fleet

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// Blocks of ports lie below the ports that systems give to outgoing connections (from
// 32768 on Linux), so that a port stays free while its owner is restarted.
const (
	firstBlock = 20_000
	blocks     = 91
)

// portLease is a block of ports that no other fleet of this machine takes. A lock on a
// file holds it until it is released or the process dies.
type portLease struct {
	first int
	lock  *os.File
}

// leasePorts takes a block in which nothing listens.
func leasePorts() (*portLease, error) {
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("svc-ports-%d", os.Getuid()))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("lease ports: %w", err)
	}
	for _, n := range rand.Perm(blocks) { //nolint:gosec // spreads fleets, guards nothing
		lease, err := tryBlock(dir, firstBlock+n*blockPorts)
		if err != nil || lease != nil {
			return lease, err
		}
	}
	return nil, fmt.Errorf("lease ports: all %d blocks are in use", blocks)
}

// tryBlock returns nil without an error when the block is in use.
func tryBlock(dir string, first int) (*portLease, error) {
	lock, err := os.OpenFile(filepath.Join(dir, strconv.Itoa(first)), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lease ports: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(lock.Close())
	}
	for port := first; port < first+blockPorts; port++ {
		lis, err := net.Listen("tcp", address(port))
		if err != nil {
			return nil, lock.Close()
		}
		if err := lis.Close(); err != nil {
			return nil, errors.Join(fmt.Errorf("lease ports: %w", err), lock.Close())
		}
	}
	return &portLease{first: first, lock: lock}, nil
}

func (l *portLease) release() error { return l.lock.Close() }
