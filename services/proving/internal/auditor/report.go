package auditor

import (
	"fmt"
	"slices"
	"strings"
)

// maxFindings bounds the findings that are kept of a verdict. All are counted.
const maxFindings = 20

// Verdict is a kind of wrong.
type Verdict string

// The verdicts.
const (
	Lost      Verdict = "lost"
	Doubled   Verdict = "doubled"
	Unpaid    Verdict = "unpaid"
	Overdrawn Verdict = "overdrawn"
	Drift     Verdict = "drift"
)

// Verdicts returns all of them.
func Verdicts() []Verdict { return []Verdict{Lost, Doubled, Unpaid, Overdrawn, Drift} }

// Finding is one wrong.
type Finding struct {
	// Subject is a request, account, key, entry or provider by its id, with its kind
	// before it.
	Subject string `json:"subject"`
	Text    string `json:"text"`
}

// Judgement is how often a verdict was found, with the first findings.
type Judgement struct {
	Verdict  Verdict   `json:"verdict"`
	Count    int       `json:"count"`
	Findings []Finding `json:"findings"`
}

// Balance is the sum of all accounts of a kind, by the rows; credits are above zero. It
// is text, because the sums have 128 bits.
type Balance struct {
	Asset  string `json:"asset"`
	Kind   string `json:"kind"`
	Book   string `json:"book,omitempty"`
	Amount string `json:"amount"`
}

// Count is a number with a name.
type Count struct {
	Name string `json:"name"`
	N    int64  `json:"n"`
}

// Report is the result of an audit.
type Report struct {
	// Requests counts the admitted requests, and Calls the calls of clients.
	Requests int `json:"requests"`
	Calls    int `json:"calls"`
	// Answers counts the calls by what their clients saw.
	Answers []Count `json:"answers"`
	Settled int     `json:"settled"`
	Open    int     `json:"open"`
	// Judged are calls compared with the table of endings. Untied are calls without a
	// trace in the ledger or with engines.
	Judged int `json:"judged"`
	Untied int `json:"untied"`

	Judgements []Judgement `json:"judgements"`
	// Undecided are the subjects that could not be judged, and how often that was.
	Undecided []Finding `json:"undecided"`
	Doubts    int       `json:"doubts"`

	Balances []Balance `json:"balances"`
	// Unjudged are the tables that the auditor does not know, with their rows.
	Unjudged []Count `json:"unjudged"`
	// Notes count what is allowed and yet worth a look.
	Notes []Count `json:"notes"`
	// Settlement counts what was computed anew of batches, months, payouts and reserves.
	Settlement []Count `json:"settlement"`

	notes, counts map[string]int64
}

func newReport() *Report {
	r := &Report{Undecided: []Finding{}, notes: map[string]int64{}, counts: map[string]int64{}}
	for _, v := range Verdicts() {
		r.Judgements = append(r.Judgements, Judgement{Verdict: v, Findings: []Finding{}})
	}
	return r
}

// Clean reports whether nothing wrong was found.
func (r *Report) Clean() bool {
	return !slices.ContainsFunc(r.Judgements, func(j Judgement) bool { return j.Count > 0 })
}

// Decided reports whether everything could be judged.
func (r *Report) Decided() bool { return r.Doubts == 0 }

// found notes a wrong.
func (r *Report) found(v Verdict, subject, format string, args ...any) {
	j := &r.Judgements[slices.Index(Verdicts(), v)]
	j.Count++
	if len(j.Findings) < maxFindings {
		j.Findings = append(j.Findings, Finding{subject, fmt.Sprintf(format, args...)})
	}
}

// doubt notes a subject that cannot be judged.
func (r *Report) doubt(subject, format string, args ...any) {
	r.Doubts++
	if len(r.Undecided) < maxFindings {
		r.Undecided = append(r.Undecided, Finding{subject, fmt.Sprintf(format, args...)})
	}
}

// note counts something that is allowed.
func (r *Report) note(name string) { r.notes[name]++ }

// count counts something that was judged.
func (r *Report) count(name string) { r.counts[name]++ }

// about names the subject of a finding.
func about(kind string, u id) string { return kind + " " + u.String() }

// sortedCounts puts counts in the order of their names.
func sortedCounts(counts map[string]int64) []Count {
	out := make([]Count, 0, len(counts))
	for name, n := range counts {
		out = append(out, Count{name, n})
	}
	slices.SortFunc(out, func(a, b Count) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// summarize fills in the figures that are no findings.
func (a *audit) summarize() {
	seen := map[sight]int64{}
	for _, c := range a.calls {
		seen[c.sight()]++
	}
	for _, s := range sights() {
		a.r.Answers = append(a.r.Answers, Count{string(s), seen[s]})
	}
	a.r.Calls = len(a.calls)
	for _, q := range a.requests {
		if len(q.lines) > 0 {
			a.r.Settled++
		}
		if q.hold != nil {
			a.r.Requests++
		}
	}
	if a.quarantined > 0 {
		a.r.notes["events in quarantine"] = int64(a.quarantined)
	}
	a.r.Unjudged, a.r.Notes = sortedCounts(a.unjudged), sortedCounts(a.r.notes)
	a.r.Settlement = sortedCounts(a.r.counts)
}
