package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"svc.internal/services/proving/internal/chaos"
)

// show prints the progress of a run: on a terminal in one line that changes, elsewhere in
// a new line now and then. The log gets everything.
type show struct {
	out, log io.Writer
	terminal bool
	began    time.Time

	mu    sync.Mutex
	last  time.Time
	stage string
	open  bool
}

func newShow(out, log io.Writer) *show {
	s := &show{out: out, log: log, began: time.Now()}
	if file, ok := out.(*os.File); ok {
		if info, err := file.Stat(); err == nil {
			s.terminal = info.Mode()&os.ModeCharDevice != 0
		}
	}
	return s
}

func (s *show) progress(p chaos.Progress) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	line := fmt.Sprintf("%v %s: %d of %d faults, %d requests", now.Sub(s.began).Round(time.Second), p.Stage,
		p.Done, p.Faults, p.Requests)
	fmt.Fprintf(s.log, "%s %s %s %s\n", now.UTC().Format("15:04:05.000"), line, p.Last, p.Note)
	if p.Note != "" {
		s.endLineLocked()
		fmt.Fprintf(s.out, "  %s: %s\n", p.Last, p.Note)
	}
	switch {
	case s.terminal:
		fmt.Fprintf(s.out, "\r\033[K  %s %s", line, p.Last)
		s.open = true
	case p.Stage != s.stage || now.Sub(s.last) >= every:
		fmt.Fprintf(s.out, "  %s\n", line)
		s.last = now
	}
	s.stage = p.Stage
}

// end ends the line that changes.
func (s *show) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endLineLocked()
}

func (s *show) endLineLocked() {
	if s.open {
		fmt.Fprintln(s.out)
		s.open = false
	}
}
