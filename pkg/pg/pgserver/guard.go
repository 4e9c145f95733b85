package pgserver

import (
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"syscall"
)

// guard ends a test server when our process dies without Stop (a test that timed out or
// was killed). It is a shell that waits on a pipe that we hold: a line means that all is
// well, and the end of the pipe that we have died. Unlike PR_SET_PDEATHSIG it exists on
// every Unix and does not depend on the thread that happened to fork.
type guard struct {
	cmd  *exec.Cmd
	pipe io.WriteCloser
}

// guardScript gets the server's pid and folder as $1 and $2.
const guardScript = `
if read -r line; then exit 0; fi
kill -INT "$1" 2>/dev/null
i=0
while kill -0 "$1" 2>/dev/null && [ $i -lt 50 ]; do sleep 0.1; i=$((i+1)); done
kill -QUIT "$1" 2>/dev/null && sleep 1
rm -rf -- "$2"
`

func setGuard(pid int, dir string) (*guard, error) {
	//nolint:gosec // a constant script; pid and folder are ours
	cmd := exec.Command("/bin/sh", "-c", guardScript, "guard", strconv.Itoa(pid), dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("guard the test server: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("guard the test server: %w", err)
	}
	return &guard{cmd: cmd, pipe: pipe}, nil
}

// dismiss is called soon after the server has ended, before its pid can belong to another
// process.
func (g *guard) dismiss() error {
	_, writeErr := io.WriteString(g.pipe, "stopped\n")
	if err := errors.Join(writeErr, g.pipe.Close(), g.cmd.Wait()); err != nil {
		return fmt.Errorf("dismiss the guard of the test server: %w", err)
	}
	return nil
}
