package terminaltest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Patience bounds every wait. Nothing should come near it.
const Patience = 4 * time.Minute

// Terminal is a terminal at which a program runs, and what it has shown.
type Terminal struct {
	// Done gets the result of the program once the program has ended and all of its output was read.
	Done chan error
	// Group is the process group of the program.
	Group int

	keyboard *os.File
	ended    chan struct{} // closed when nothing more is shown

	mu    sync.Mutex
	shown bytes.Buffer
	news  chan struct{} // closed when more is shown
	seen  int           // how many bytes of shown Expect has passed
}

// Start runs a program at a terminal, until the test ends.
func Start(t testing.TB, cmd *exec.Cmd) *Terminal {
	t.Helper()
	s := Open(t)
	s.Run(t, cmd)
	return s
}

// Open makes a terminal of 24 lines and 80 columns. Run runs programs at it.
func Open(t testing.TB) *Terminal {
	t.Helper()
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = keyboard.Close() })
	s := &Terminal{keyboard: keyboard, Done: make(chan error, 1), news: make(chan struct{}),
		ended: make(chan struct{})}
	s.Resize(t, 24, 80)
	return s
}

// Run runs a program until the test ends.
func (s *Terminal) Run(t testing.TB, cmd *exec.Cmd) {
	t.Helper()
	screen := s.screen(t)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = screen, screen, screen
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setsid, cmd.SysProcAttr.Setctty = true, true
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = screen.Close() // the program has it
	s.Group = cmd.Process.Pid
	go func() {
		defer close(s.ended)
		s.read()
	}()
	go func() {
		err := cmd.Wait()
		<-s.ended
		s.Done <- err
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // fails only for a process that has ended
		if t.Failed() {
			t.Logf("the terminal:\n%q", s.Text())
		}
	})
}

// screen opens the side of the terminal that a program sees.
func (s *Terminal) screen(t testing.TB) *os.File {
	t.Helper()
	number, err := unix.IoctlGetInt(int(s.keyboard.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(int(s.keyboard.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	screen, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return screen
}

// read keeps what the program shows until the program has ended.
func (s *Terminal) read() {
	for buf := make([]byte, 4096); ; {
		n, err := s.keyboard.Read(buf)
		s.mu.Lock()
		s.shown.Write(buf[:n])
		close(s.news)
		s.news = make(chan struct{})
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// Text returns all that the terminal has shown.
func (s *Terminal) Text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shown.String()
}

// Expect waits until the program shows a text after the text that was expected before. It returns what
// was shown between the two. It fails the test if the program ends without showing the text.
func (s *Terminal) Expect(t testing.TB, text string) string {
	t.Helper()
	deadline := time.NewTimer(Patience)
	defer deadline.Stop()
	for {
		over := false
		select {
		case <-s.ended:
			over = true
		default:
		}
		s.mu.Lock()
		rest, news := s.shown.String()[s.seen:], s.news
		place := strings.Index(rest, text)
		if place >= 0 {
			s.seen += place + len(text)
		}
		s.mu.Unlock()
		if place >= 0 {
			return rest[:place]
		}
		if over {
			t.Fatalf("the program has ended and did not show %q", text)
		}
		select {
		case <-news:
		case <-s.ended:
		case <-deadline.C:
			t.Fatalf("the terminal still does not show %q", text)
		}
	}
}

// Type types a text.
func (s *Terminal) Type(t testing.TB, text string) {
	t.Helper()
	if _, err := s.keyboard.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

// Answer waits for a question and types a line.
func (s *Terminal) Answer(t testing.TB, question, line string) {
	t.Helper()
	s.Expect(t, question)
	s.Type(t, line+"\n")
}

// Resize gives the terminal another size, and the program is told.
func (s *Terminal) Resize(t testing.TB, rows, columns uint16) {
	t.Helper()
	size := &unix.Winsize{Row: rows, Col: columns}
	if err := unix.IoctlSetWinsize(int(s.keyboard.Fd()), unix.TIOCSWINSZ, size); err != nil {
		t.Fatal(err)
	}
}

// Modes returns the settings of the terminal, such as whether it shows what is typed.
func (s *Terminal) Modes(t testing.TB) unix.Termios {
	t.Helper()
	modes, err := unix.IoctlGetTermios(int(s.keyboard.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return *modes
}
