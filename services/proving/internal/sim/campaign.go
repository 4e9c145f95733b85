package sim

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"
)

// Campaign is many histories.
type Campaign struct {
	// Seed is the seed of the first history; the others count up from it.
	Seed uint64
	// Histories bounds their number, and For their time. With neither, 10,000 are played.
	Histories int
	For       time.Duration
	Workers   int
	// Config is the configuration of each history, except for its seed.
	Config Config
	// Progress is called with the progress now and then; it may be nil.
	Progress func(Report)
}

// The bounds of a campaign.
const (
	defaultHistories = 10_000
	// maxFailures failures are kept and shrunk. The campaign ends with the last of them.
	maxFailures      = 5
	progressInterval = 250 * time.Millisecond
)

// Report is the result of a campaign.
type Report struct {
	Totals
	Took      time.Duration `json:"took"`
	PerMinute float64       `json:"histories_per_minute"`
	Failures  []Failure     `json:"failures"`
}

// Failure is a history that broke something, with the fewest faults.
type Failure struct {
	Result
	Trace string `json:"trace"`
}

// Play plays the campaign.
func (c Campaign) Play() (Report, error) {
	if c.Histories == 0 && c.For == 0 {
		c.Histories = defaultHistories
	}
	p := &playing{Campaign: c, began: time.Now(), next: c.Seed}
	var workers sync.WaitGroup
	for range max(c.Workers, 1) {
		workers.Go(p.work)
	}
	workers.Wait()
	p.timed()
	slices.SortFunc(p.report.Failures, func(a, b Failure) int { return int(int64(a.Seed) - int64(b.Seed)) })
	return p.report, p.err
}

// playing is a campaign under way.
type playing struct {
	Campaign
	runner Runner
	began  time.Time

	mu     sync.Mutex
	next   uint64
	told   time.Time
	report Report
	err    error
}

func (p *playing) work() {
	for {
		seed, ok := p.take()
		if !ok {
			return
		}
		cfg := p.Config
		cfg.Seed = seed
		result, err := p.runner.Run(cfg)
		var failure *Failure
		if err == nil && len(result.Broken) > 0 {
			failure, err = p.examine(cfg, result)
		}
		p.note(result, failure, err)
	}
}

// take is the next seed, while there is one.
func (p *playing) take() (uint64, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	done := p.next - p.Seed
	if p.err != nil || len(p.report.Failures) >= maxFailures || p.Histories > 0 && done >= uint64(p.Histories) ||
		p.For > 0 && time.Since(p.began) >= p.For {
		return 0, false
	}
	p.next++
	return p.next - 1, true
}

// examine finds the smallest history that still breaks something.
func (p *playing) examine(cfg Config, result Result) (*Failure, error) {
	least, err := p.runner.Shrink(cfg, result)
	if err != nil {
		return nil, err
	}
	cfg.Faults, cfg.Trace = least.Faults, &Trace{}
	again, err := p.runner.Run(cfg)
	return &Failure{Result: again, Trace: string(cfg.Trace.Text())}, err
}

func (p *playing) note(r Result, failure *Failure, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.report.Add(r.Totals)
	if err != nil && p.err == nil {
		p.err = err
	}
	if failure != nil {
		p.report.Failures = append(p.report.Failures, *failure)
	}
	if p.Progress != nil && time.Since(p.told) >= progressInterval {
		p.timed()
		p.told = time.Now()
		p.Progress(p.report)
	}
}

func (p *playing) timed() {
	p.report.Took = time.Since(p.began)
	p.report.PerMinute = float64(p.report.Histories) / p.report.Took.Minutes()
}

// Line is the report in one line.
func (r Report) Line() string {
	return fmt.Sprintf("%d histories, %.0f a minute, %d requests, %d faults, %d settled, %d broken",
		r.Histories, r.PerMinute, r.Requests, r.Struck, r.Settled, len(r.Failures))
}

// JSON writes the report.
func (r Report) JSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(r)
}

// Print writes the report for people, failures first.
func (r Report) Print(w io.Writer) error {
	for _, f := range r.Failures {
		if err := f.Print(w, &Trace{text: []byte(f.Trace)}); err != nil {
			return err
		}
	}
	text := fmt.Appendf(nil, "%s\n", r.Line())
	text = fmt.Appendf(text,
		"  %d events; of %d admitted: %d settled (%d by the gateway's count), %d released, %d expired,"+
			" %d orphans; %d whole answers; %d admitted from memory, %d holds written from tickets\n",
		r.Events, r.Admitted, r.Settled, r.ByGateway, r.Released, r.Expired, r.Orphans, r.Complete, r.FromMemory,
		r.FromTickets)
	for _, limit := range slices.Sorted(maps.Keys(r.Known)) {
		text = fmt.Appendf(text, "  known: %d × %s\n", r.Known[limit], limit)
	}
	_, err := w.Write(text)
	return err
}

// Print writes a history: its trace, its faults, and what it broke.
func (r Result) Print(w io.Writer, trace *Trace) error {
	text := slices.Clone(trace.Text())
	text = fmt.Appendf(text, "seed %d\n", r.Seed)
	for _, f := range r.Faults {
		text = fmt.Appendf(text, "  %s\n", f)
	}
	for _, b := range r.Broken {
		text = fmt.Appendf(text, "  BROKEN %s\n", b)
	}
	_, err := w.Write(text)
	return err
}
