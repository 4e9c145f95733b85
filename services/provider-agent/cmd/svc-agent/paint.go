package main

import (
	"io"
	"os"
	"strings"
)

// terminalOf reports whether an output is a terminal.
func terminalOf(out io.Writer) (*os.File, bool) {
	file, is := out.(*os.File)
	if !is {
		return nil, false
	}
	info, err := file.Stat()
	return file, err == nil && info.Mode()&os.ModeCharDevice != 0
}

// paint colours a text on a terminal.
type paint func(text string, c colour) string

// colour is an SGR code.
type colour string

const (
	green  colour = "32"
	yellow colour = "33"
	red    colour = "31"
	bold   colour = "1"
)

// paintFor colours text for a terminal, unless NO_COLOR is set. Other outputs get plain
// text.
func paintFor(out io.Writer, environ []string) paint {
	plain := func(text string, _ colour) string { return text }
	if _, is := terminalOf(out); !is {
		return plain
	}
	for _, v := range environ {
		if value, is := strings.CutPrefix(v, "NO_COLOR="); is && value != "" || v == "TERM=dumb" {
			return plain
		}
	}
	return coloured
}

func coloured(text string, c colour) string { return "\x1b[" + string(c) + "m" + text + "\x1b[0m" }
