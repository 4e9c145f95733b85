package chaos

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"svc.internal/services/proving/internal/auditor"
	"svc.internal/services/proving/internal/chaos/plan"
	"svc.internal/services/proving/internal/fleet"
)

// Cell is the outcome of the faults of one cell.
type Cell struct {
	Faults int `json:"faults"`
	// Longest is the longest time until the fleet served again.
	Longest time.Duration `json:"longest_ns"`
	// Unserved counts the faults after which the fleet did not serve again in time, and
	// Missed those whose moment no request reached.
	Unserved int `json:"unserved,omitempty"`
	Missed   int `json:"missed,omitempty"`
}

// Report is the outcome of a run.
type Report struct {
	Seed   uint64        `json:"seed"`
	Plant  string        `json:"plant,omitempty"`
	Replay string        `json:"replay"`
	Dir    string        `json:"dir"`
	Took   time.Duration `json:"took_ns"`
	// Idle is how long it took after the last call until the fleet was idle.
	Idle time.Duration `json:"idle_ns"`
	// Nights has how long it took each night until the day was batched and posted.
	Nights []time.Duration `json:"nights_ns,omitempty"`
	// Paid has how long it took each night until all payouts had ended. NoChain reports that a run with nights had no
	// chain, and so no payouts, because anvil could not be installed.
	Paid    []time.Duration `json:"paid_ns,omitempty"`
	NoChain bool            `json:"no_chain,omitempty"`
	// Reorged counts the payouts' transactions that a chain had and had no longer.
	Reorged  int64 `json:"reorged,omitempty"`
	Requests int64 `json:"requests"`
	// Faults counts the faults that were done; Cells has them by cell. Again counts the tries that no request reached,
	// and after which the fault was tried again.
	Faults int             `json:"faults"`
	Again  int             `json:"tried_again,omitempty"`
	Cells  map[string]Cell `json:"cells"`

	// Calls are the calls whose client waited for the end, and Answered are those of them
	// that were answered. CallsHurting and AnsweredHurting are those during faults.
	Calls           int64 `json:"calls"`
	Answered        int64 `json:"answered"`
	CallsHurting    int64 `json:"calls_during_faults"`
	AnsweredHurting int64 `json:"answered_during_faults"`
	// Late calls did not end in time. Misled calls were not answered with the truth, Late
	// ones included; the first of them are in Untrue.
	Late   int      `json:"late"`
	Misled int      `json:"untold"`
	Untrue []string `json:"untrue,omitempty"`

	// Forged are the attempts of intruders that failed.
	Forged Forged `json:"forged"`

	// Exits are the processes that ended by themselves and were started again, by name.
	// Panics are the processes of Exits that panicked, each with its log from there on.
	Exits  map[string]int `json:"exits,omitempty"`
	Panics []string       `json:"panics,omitempty"`
	// Faulty are other reasons why the run went wrong.
	Faulty []string `json:"faulty,omitempty"`

	Audit *auditor.Report `json:"audit"`

	mu      sync.Mutex
	planned int
}

func newReport(cfg Config, faults []plan.Fault) *Report {
	return &Report{
		Seed: cfg.Seed, Plant: cfg.Plant, Replay: cfg.Replay(), Dir: cfg.Dir, planned: len(faults),
		Cells: map[string]Cell{}, Exits: map[string]int{},
	}
}

func (r *Report) add(f plan.Fault, took time.Duration, served bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.Cells[f.Cell.Name()]
	c.Faults++
	r.Faults++
	c.Longest = max(c.Longest, took)
	if !served {
		c.Unserved++
	}
	r.Cells[f.Cell.Name()] = c
}

// miss counts a try that no request reached: the last one of a fault, unless the fault is tried again.
func (r *Report) miss(f plan.Fault, again bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if again {
		r.Again++
		return
	}
	c := r.Cells[f.Cell.Name()]
	c.Missed++
	r.Cells[f.Cell.Name()] = c
}

// note keeps what went wrong.
func (r *Report) note(err error) {
	if err != nil {
		r.Faulty = append(r.Faulty, err.Error())
	}
}

func (r *Report) done() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.Faults
}

// take adds what was seen besides the money.
func (r *Report) take(w *watch, exits []fleet.Exit) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r.Calls, r.Answered, r.CallsHurting, r.AnsweredHurting = w.calls, w.answered, w.callsHurting, w.answeredThere
	r.Late, r.Misled, r.Untrue = w.late, w.misled, w.untrue
	for _, e := range exits {
		r.Exits[e.Name]++
		if i := strings.Index(e.Log, "panic: "); i >= 0 {
			r.Panics = append(r.Panics, e.Name+": "+e.Log[i:])
		}
	}
}

// Wrong names everything that went wrong; empty for a good run.
func (r *Report) Wrong() []string {
	var wrong []string
	for _, name := range slices.Sorted(maps.Keys(r.Cells)) {
		c := r.Cells[name]
		if c.Unserved > 0 {
			wrong = append(wrong, fmt.Sprintf("%s: not served again in %v, %d times", name, servedBound, c.Unserved))
		}
		if c.Faults == 0 {
			wrong = append(wrong, name+": no request ever came to its moment")
		}
	}
	if r.Misled > 0 {
		wrong = append(wrong, fmt.Sprintf("%d clients were not told the truth in time", r.Misled))
	}
	for _, panicked := range r.Panics {
		first, _, _ := strings.Cut(panicked, "\n")
		wrong = append(wrong, first)
	}
	wrong = append(wrong, r.Faulty...)
	return append(wrong, r.wrongMoney()...)
}

// Money reports whether the auditor found something wrong.
func (r *Report) Money() (wrong bool) { return r.Audit != nil && !r.Audit.Clean() }

func (r *Report) wrongMoney() []string {
	if r.Audit == nil {
		return []string{"there is no audit"}
	}
	var wrong []string
	for _, j := range r.Audit.Judgements {
		if j.Count > 0 {
			wrong = append(wrong, fmt.Sprintf("%s %d", j.Verdict, j.Count))
		}
	}
	if !r.Audit.Decided() {
		wrong = append(wrong, fmt.Sprintf("the auditor cannot tell %d things", r.Audit.Doubts))
	}
	return wrong
}

// Print shows the report to a person.
func (r *Report) Print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "  cell\tfaults\tlongest until served again")
	for _, name := range slices.SortedFunc(maps.Keys(r.Cells), func(a, b string) int {
		return cmp.Or(cmp.Compare(r.Cells[b].Longest, r.Cells[a].Longest), cmp.Compare(a, b))
	}) {
		c := r.Cells[name]
		fmt.Fprintf(w, "  %s\t%d\t%v\n", name, c.Faults, c.Longest.Round(10*time.Millisecond))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(out, "\n  seed %d, %v\n", r.Seed, r.Took.Round(time.Second))
	fmt.Fprintf(out, "  requests %d, faults %d in %d cells\n", r.Requests, r.Faults, len(r.Cells))
	if r.Again > 0 {
		fmt.Fprintf(out, "  tried again, because no request came to the moment: %d\n", r.Again)
	}
	fmt.Fprintf(out, "  answered %s, during faults %s; told late %d, untruly %d; idle after %v\n",
		percentage(r.Answered, r.Calls), percentage(r.AnsweredHurting, r.CallsHurting), r.Late, r.Misled-r.Late,
		r.Idle.Round(100*time.Millisecond))
	if f := r.Forged; f != (Forged{}) {
		fmt.Fprintf(out,
			"  forged: NATS refused %d connections and %d messages; %d events set aside by their readers; %d repeated "+
				"without effect\n",
			f.Connections, f.Messages, f.Quarantined, f.Repeated)
	}
	if n := len(r.Nights); n > 0 {
		fmt.Fprintf(out, "  days ended: %d, each batched and posted within %v\n", n,
			slices.Max(r.Nights).Round(100*time.Millisecond))
	}
	if n := len(r.Paid); n > 0 {
		fmt.Fprintf(out, "  payouts of each night ended within %v\n", slices.Max(r.Paid).Round(100*time.Millisecond))
	}
	if r.Reorged > 0 {
		fmt.Fprintf(out, "  transactions of payouts that a chain lost and had to have again: %d\n", r.Reorged)
	}
	if r.NoChain {
		fmt.Fprintln(out, "  there was no chain, and nobody was paid: anvil is not there")
	}
	if len(r.Exits) > 0 {
		fmt.Fprintf(out, "  ended by themselves and were started again: %v\n", r.Exits)
	}
	if r.Audit != nil {
		r.printAudit(out)
	}
	for _, text := range r.Untrue {
		fmt.Fprintf(out, "  untrue: %s\n", text)
	}
	if wrong := r.Wrong(); len(wrong) > 0 {
		fmt.Fprintf(out, "\n  WRONG: %s\n  The files are in %s. To do it again:\n  %s\n", strings.Join(wrong, "; "), r.Dir,
			r.Replay)
	}
	return nil
}

func (r *Report) printAudit(out io.Writer) {
	var verdicts []string
	for _, j := range r.Audit.Judgements {
		verdicts = append(verdicts, fmt.Sprintf("%s %d", j.Verdict, j.Count))
	}
	fmt.Fprintf(out, "\n  %s\n", strings.Join(verdicts, ", "))
	for _, j := range r.Audit.Judgements {
		for _, f := range j.Findings {
			fmt.Fprintf(out, "  %s: %s: %s\n", j.Verdict, f.Subject, f.Text)
		}
	}
	for _, f := range r.Audit.Undecided {
		fmt.Fprintf(out, "  cannot be told: %s: %s\n", f.Subject, f.Text)
	}
	for _, n := range r.Audit.Settlement {
		fmt.Fprintf(out, "  settlement: %s %d\n", n.Name, n.N)
	}
	for _, n := range r.Audit.Notes {
		fmt.Fprintf(out, "  allowed: %s %d\n", n.Name, n.N)
	}
}

func percentage(part, whole int64) string {
	if whole == 0 {
		return "none"
	}
	return fmt.Sprintf("%.2f %%", 100*float64(part)/float64(whole))
}
