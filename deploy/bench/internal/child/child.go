// Package child starts a process that answers each line with one line.
package child

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// Child is the process. One goroutine at a time uses it.
type Child struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	answers *bufio.Scanner
}

// Start starts the command. What it prints as errors is shown.
func Start(cmd *exec.Cmd) (*Child, error) {
	c := &Child{cmd: cmd}
	cmd.Stderr = os.Stderr
	var err error
	if c.in, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.answers = bufio.NewScanner(out)
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return c, nil
}

// Ask writes a line and returns the answer, which stands until the next call.
func (c *Child) Ask(line string) ([]byte, error) {
	if _, err := fmt.Fprintln(c.in, line); err != nil {
		return nil, fmt.Errorf("ask %s: %w", c.cmd.Path, err)
	}
	if !c.answers.Scan() {
		return nil, errors.Join(fmt.Errorf("%s does not answer", c.cmd.Path), c.answers.Err())
	}
	return c.answers.Bytes(), nil
}

// Close ends the process's input and waits for the process.
func (c *Child) Close() error {
	return errors.Join(c.in.Close(), c.cmd.Wait())
}
