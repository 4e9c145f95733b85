// Package worklog counts what this machine served, by UTC day, so that its owner can compare the
// platform's daily statements with it. It keeps numbers and names of models, and nothing of the content
// of requests.
//
// The state folder has two files, which only their owner may read. The file of the day under way is
// written anew each second in which something was counted, and the file of the days before when a
// day begins, and with the first count after a start. Both are replaced whole. A machine that breaks
// down loses one second of counts at most. While the files cannot be written, as on a full disk, the
// counts stay in memory and serving goes on.
//
// A clock that ran ahead leaves a day in the future, which counts on when that day comes.
//
// Bounds: MaxDays days, with a line each. MaxModels models of a day; further models are counted under
// Others. 16 MiB for the file of the days before, from which the oldest days are dropped first.
package worklog

import (
	"context"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/workreceipt"
)

const (
	writeInterval = time.Second
	// lateTime is the time before midnight in which a request counts as late, because the platform may
	// record it on the next day.
	lateTime = 10 * time.Minute
)

// Log counts. It is safe for concurrent use.
type Log struct {
	dir   string // empty where nothing is written
	clock clock.Clock
	log   *slog.Logger

	mu sync.Mutex
	// days are the days before, the oldest first, and none of them is changed in place. A day to which
	// the log came back is among them with its earlier counts, so that its file has it at all times.
	days  []Day
	today Day
	dirty bool
	// turned means that days differs from its file.
	turned bool

	fault bool // a failure of the files was logged; for the goroutine of Run
}

// Open reads the counts in dir. With an empty dir the counts do not outlive the process. Counts that
// cannot be read do not keep the agent from serving: the files stay as they are, and nothing is written.
func Open(dir string, c clock.Clock, log *slog.Logger) *Log {
	l := &Log{dir: dir, clock: c, log: log, today: Day{Models: map[string]Work{}}}
	if dir == "" {
		return l
	}
	days, err := Read(dir)
	if err != nil {
		log.Warn("the counts of what was served cannot be read, so none are kept until the next start", "error", err)
		l.dir = ""
		return l
	}
	if n := len(days); n > 0 {
		// The newest day need not be the one under way when the agent ended, so the first write is of
		// both files.
		l.days, l.today, l.turned = days[:n-1], days[n-1], true
	}
	return l
}

// Chat counts a chat by its receipt.
func (l *Log) Chat(r workreceipt.Receipt) {
	w := Work{Requests: 1, OutputTokens: r.SentTokens}
	if r.Claimed {
		w.PromptTokens, w.OutputTokens = r.ClaimedPrompt, r.ClaimedCompletion
	}
	l.count(r.Model, w, r.Complete)
}

// Other counts a request of an endpoint other than chat, which has no receipt.
func (l *Log) Other(modelID string) { l.count(modelID, Work{Requests: 1}, true) }

func (l *Log) count(modelID string, w Work, complete bool) {
	now := l.clock.Now().UTC()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.turnLocked(now)
	d := &l.today
	if _, known := d.Models[modelID]; !known && len(d.Models) >= MaxModels {
		modelID = Others
	}
	sum := d.Models[modelID]
	sum.Requests += w.Requests
	sum.PromptTokens += w.PromptTokens
	sum.OutputTokens += w.OutputTokens
	d.Models[modelID] = sum
	d.Requests++
	if !complete {
		d.CutOff++
	}
	if now.Add(lateTime).Day() != now.Day() {
		d.Late++
	}
	l.dirty = true
}

// turnLocked begins a day, or goes on with one that was begun before, so that each day has one line.
// A clock that goes back by a day at most begins none. A day further ahead is closed, because the
// clock was wrong when that day began, and would otherwise have all counts until then.
func (l *Log) turnLocked(now time.Time) {
	day := now.Format(time.DateOnly)
	if day <= l.today.Day && l.today.Day <= now.AddDate(0, 0, 1).Format(time.DateOnly) {
		return
	}
	if l.today.Requests > 0 {
		l.days = with(l.days, l.today)
		l.days = l.days[max(0, len(l.days)-(MaxDays-1)):]
		l.turned = true
	}
	l.today = Day{Day: day, Models: map[string]Work{}}
	if at := slices.IndexFunc(l.days, func(d Day) bool { return d.Day == day }); at >= 0 {
		l.today = l.days[at]
		l.today.Models = maps.Clone(l.today.Models)
	}
}

// Run writes the counts each second until ctx ends, and then once more.
func (l *Log) Run(ctx context.Context) {
	tick := time.NewTicker(writeInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			l.write()
		case <-ctx.Done():
			l.write()
			return
		}
	}
}

// write writes the counts, if something was counted since the last time. Only Run's goroutine calls it.
// It writes the file of the days before first: where the agent ends between the two files, a day is in
// both files, and never in neither.
func (l *Log) write() {
	l.mu.Lock()
	if !l.dirty || l.dir == "" {
		l.mu.Unlock()
		return
	}
	before, today, turned := l.days, l.today, l.turned
	today.Models = maps.Clone(today.Models)
	l.dirty, l.turned = false, false
	l.mu.Unlock()
	var err error
	if turned {
		err = l.writeDays(before)
	}
	if err == nil {
		err = replace(filepath.Join(l.dir, todayFile), linesOf([]Day{today}))
	}
	if err != nil {
		l.mu.Lock()
		l.dirty, l.turned = true, l.turned || turned // it is tried again
		l.mu.Unlock()
		if !l.fault {
			l.log.Warn("the counts of what was served cannot be written; serving goes on", "error", err)
		}
	}
	l.fault = err != nil
}

// writeDays writes the days before, if there are any.
func (l *Log) writeDays(days []Day) error {
	if len(days) == 0 {
		return nil
	}
	text := linesOf(days)
	for len(text) > maxFile {
		days = days[1:]
		text = linesOf(days)
	}
	return replace(filepath.Join(l.dir, daysFile), text)
}
