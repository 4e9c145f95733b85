package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

const (
	// liveInterval is the pause between two questions of the live view to the agent. One in
	// accountTurns of these times it asks the marketplace, too.
	liveInterval = time.Second
	accountTurns = 15
	// A screen of unknown size counts as one with these.
	defaultRows, defaultColumns = 24, 80
)

// The codes that begin and end the live view. The view uses the terminal's second screen, so that the
// first one is there again afterwards. It hides the cursor, and cuts long lines instead of wrapping
// them.
const (
	enterView = "\x1b[?1049h\x1b[?25l\x1b[?7l"
	leaveView = "\x1b[?7h\x1b[?25h\x1b[?1049l"
)

// liveStatus shows the status anew each second until ctx ends or a key ends the view.
func liveStatus(ctx context.Context, in io.Reader, out *os.File, cfg environment, paint paint) error {
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	restore, err := watchKeys(in, leave)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(out, enterView); err != nil {
		return errors.Join(fmt.Errorf("show the status: %w", err), restore())
	}
	err = eachSecond(ctx, out, cfg, paint)
	if _, failed := io.WriteString(out, leaveView); err == nil && failed != nil {
		err = fmt.Errorf("leave the live view: %w", failed)
	}
	return errors.Join(err, restore())
}

// watchKeys calls leave when q, Ctrl-C or Ctrl-D is typed, and returns a function that restores the
// terminal's modes. Where in is no terminal, nothing is read. The read that waits for a key is left
// behind, because nothing can end it. This does no harm, because the program ends after the view.
func watchKeys(in io.Reader, leave context.CancelFunc) (restore func() error, err error) {
	keyboard, is := in.(*os.File)
	if !is || !term.IsTerminal(int(keyboard.Fd())) {
		return func() error { return nil }, nil
	}
	modes, err := term.MakeRaw(int(keyboard.Fd())) // a key counts without Enter, and is not shown
	if err != nil {
		return nil, fmt.Errorf("read keys from the terminal: %w", err)
	}
	go func() {
		for key := make([]byte, 1); ; {
			n, err := keyboard.Read(key)
			if err != nil || n == 1 && bytes.IndexByte([]byte{'q', 'Q', ctrlC, ctrlD}, key[0]) >= 0 {
				leave()
				return
			}
		}
	}()
	return func() error {
		if err := term.Restore(int(keyboard.Fd()), modes); err != nil {
			return fmt.Errorf("give the terminal its earlier modes: %w", err)
		}
		return nil
	}, nil
}

// The bytes that a terminal in raw mode sends for these keys.
const (
	ctrlC = 3
	ctrlD = 4
)

func eachSecond(ctx context.Context, out *os.File, cfg environment, paint paint) error {
	tick := time.NewTicker(liveInterval)
	defer tick.Stop()
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, unix.SIGWINCH)
	defer signal.Stop(resized)
	var shown picture
	for turn := 0; ; {
		if turn%accountTurns == 0 {
			now, err := look(ctx, cfg)
			if err != nil {
				now.AccountFault = err.Error()
			}
			shown = now
		} else {
			shown.Agent, shown.AgentFault = nil, ""
			shown.askAgent(ctx, cfg)
		}
		for waits := true; waits; {
			if ctx.Err() != nil {
				return nil
			}
			if err := show(out, shown, paint); err != nil {
				return err
			}
			select {
			case <-ctx.Done():
				return nil
			case <-resized: // shows the same status in the new size, and asks nobody
			case <-tick.C:
				turn, waits = turn+1, false
			}
		}
	}
}

// show fills the terminal with the status.
func show(out *os.File, shown picture, paint paint) error {
	var text bytes.Buffer
	fmt.Fprintf(&text, "%s\n", paint("svc-agent  "+time.Now().Format(time.TimeOnly)+"  q leaves this view", bold))
	if err := writePicture(&text, shown, paint); err != nil {
		return err
	}
	rows, columns := sizeOf(out)
	if _, err := io.WriteString(out, screen(text.String(), rows, columns)); err != nil {
		return fmt.Errorf("show the status: %w", err)
	}
	return nil
}

// isScreen reports whether a device has a screen; /dev/null has none.
func isScreen(out *os.File) bool {
	_, err := unix.IoctlGetWinsize(int(out.Fd()), unix.TIOCGWINSZ)
	return err == nil
}

// sizeOf is the size of a terminal.
func sizeOf(out *os.File) (rows, columns int) {
	size, err := unix.IoctlGetWinsize(int(out.Fd()), unix.TIOCGWINSZ)
	if err != nil || size.Row == 0 || size.Col == 0 {
		return defaultRows, defaultColumns
	}
	return int(size.Row), int(size.Col)
}

// screen is the text that fills a terminal, in place of what it shows: the first lines, each
// cut to the columns.
func screen(text string, rows, columns int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if left := len(lines) - (rows - 1); left > 0 {
		lines = append(lines[:max(0, rows-2)], fmt.Sprintf("… %d more lines: svc-agent status --once", left+1))
	}
	var b strings.Builder
	b.WriteString("\x1b[H")
	for _, line := range lines {
		b.WriteString(cutLine(line, columns))
		b.WriteString("\x1b[K\r\n")
	}
	b.WriteString("\x1b[J")
	return b.String()
}

// cutLine shortens a line to so many characters. Colour codes take no room, and are kept.
func cutLine(line string, columns int) string {
	var b strings.Builder
	shown, inCode := 0, false
	for _, r := range line {
		switch {
		case r == '\x1b':
			inCode = true
		case inCode:
			inCode = r != 'm'
		case shown >= columns:
			continue
		default:
			shown++
		}
		b.WriteRune(r)
	}
	return b.String()
}
