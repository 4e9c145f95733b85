package sim

import (
	"fmt"
	"time"

	"svc.internal/services/proving/internal/auditor"
)

// skew is how long a transaction lasts for the auditor. In a history it takes no time,
// but the batches of transactions wait.
const skew = time.Second

// judge judges a history that has come to rest.
func (n *network) judge() (Totals, error) {
	n.check()
	x := n.atRest()
	x.checkRest()
	if err := x.audit(); err != nil {
		return Totals{}, err
	}
	return x.totals(), nil
}

// audit has the auditor judge the history by its files. A finding fails the history,
// unless a known limit of the design excuses it. So does a subject that the auditor
// cannot decide, because nothing is under way any more.
func (x *rest) audit() error {
	f, err := x.files()
	if err != nil {
		return err
	}
	report, err := auditor.Audit(auditor.Inputs{
		Export: &f.export, Earnings: &f.earnings, Clients: &f.clients, Engines: &f.engines, Setup: &f.setup,
	}, auditor.Options{Skew: skew})
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	for _, j := range report.Judgements {
		for _, found := range j.Findings {
			x.found(j.Verdict, found)
		}
	}
	for _, doubt := range report.Undecided {
		x.found(undecided, doubt)
	}
	return nil
}
