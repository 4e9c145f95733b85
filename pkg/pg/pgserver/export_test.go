package pgserver

import "syscall"

// LetGo gives up what the kernel takes from a process that is killed: the lock
// on a durable folder, our end of the guard's pipe.
func (c *Server) LetGo() error {
	if c.guard != nil {
		return c.guard.pipe.Close()
	}
	lock := c.lock
	c.lock = nil
	return release(lock)
}

// CopyLock is what a child has of us before it becomes its program.
func (c *Server) CopyLock() (int, error) { return syscall.Dup(int(c.lock.Fd())) }

// MakeTemp makes the folder of a test server, in the folder memory if enough bytes are free
// there.
func MakeTemp(memory string, enough uint64) (string, error) {
	a, err := serverAccount()
	if err != nil {
		return "", err
	}
	return makeTemp(a, memory, enough)
}
