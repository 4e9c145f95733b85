package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// liveInterval is the pause between two questions of the live view to the agent. One in
	// accountTurns of these times it asks the marketplace, too.
	liveInterval = time.Second
	accountTurns = 15
	// A screen of unknown size counts as one with these.
	defaultRows, defaultColumns = 24, 80
)

// liveStatus shows the status anew each second until ctx ends. It uses the terminal's second
// screen, so that what was there before is there again.
func liveStatus(ctx context.Context, out *os.File, cfg environment, paint paint) error {
	if _, err := io.WriteString(out, "\x1b[?1049h\x1b[?25l"); err != nil {
		return fmt.Errorf("show the status: %w", err)
	}
	err := eachSecond(ctx, out, cfg, paint)
	_, restored := io.WriteString(out, "\x1b[?25h\x1b[?1049l")
	if err == nil && restored != nil {
		err = fmt.Errorf("leave the live view: %w", restored)
	}
	return err
}

func eachSecond(ctx context.Context, out *os.File, cfg environment, paint paint) error {
	tick := time.NewTicker(liveInterval)
	defer tick.Stop()
	var shown picture
	for turn := 0; ; turn++ {
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
		if ctx.Err() != nil {
			return nil
		}
		var text bytes.Buffer
		fmt.Fprintf(&text, "%s\n", paint("svc-agent  "+time.Now().Format(time.TimeOnly)+"  Ctrl-C leaves this view", bold))
		if err := writePicture(&text, shown, paint); err != nil {
			return err
		}
		rows, columns := sizeOf(out)
		if _, err := io.WriteString(out, screen(text.String(), rows, columns)); err != nil {
			return fmt.Errorf("show the status: %w", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
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
