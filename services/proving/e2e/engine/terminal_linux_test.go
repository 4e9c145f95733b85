//go:build engine

package engine

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"svc.internal/services/proving/internal/trial"
)

// terminal is a terminal at which a program runs, and what it shows.
type terminal struct {
	keyboard *os.File
	done     chan error
	group    int // of the program's processes

	mu    sync.Mutex
	shown bytes.Buffer
	seen  int // of shown, by expect
}

// at runs a program at a terminal until the test ends.
func at(t *testing.T, cmd *exec.Cmd) *terminal {
	t.Helper()
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = keyboard.Close() })
	number, err := unix.IoctlGetInt(int(keyboard.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(int(keyboard.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	screen, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = screen, screen, screen
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = screen.Close() // the program has it
	term := &terminal{keyboard: keyboard, done: make(chan error, 1), group: cmd.Process.Pid}
	read := make(chan struct{})
	go func() {
		defer close(read)
		for buf := make([]byte, 4096); ; {
			n, err := keyboard.Read(buf)
			term.mu.Lock()
			term.shown.Write(buf[:n])
			term.mu.Unlock()
			if err != nil { // the program has ended
				return
			}
		}
	}()
	go func() {
		err := cmd.Wait()
		<-read
		term.done <- err
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // an ended process is as good
		if t.Failed() {
			t.Logf("the terminal:\n%s", term.text())
		}
	})
	return term
}

func (s *terminal) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shown.String()
}

// expect waits until the program shows a text after what was expected before.
func (s *terminal) expect(t *testing.T, text string) {
	t.Helper()
	trial.Until(t, "the terminal shows "+text, func() bool {
		all := s.text()
		place := strings.Index(all[s.seen:], text)
		if place < 0 {
			return false
		}
		s.seen += place + len(text)
		return true
	})
}

// answers waits for a question and types a line.
func (s *terminal) answers(t *testing.T, question, line string) {
	t.Helper()
	s.expect(t, question)
	if _, err := s.keyboard.WriteString(line + "\n"); err != nil {
		t.Fatal(err)
	}
}
