package work

import (
	"context"
	"sync"

	"svc.internal/services/verifier/internal/calibration"
	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/judge"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/store"
)

// maxCalibrations bounds the calibrations that are held in memory.
const maxCalibrations = 20_000

// Book has the calibrations that count now. It implements flow.Calibrations. An offer is
// judged by its own stratum; where that has no calibration, because its engine or GPU class
// is not known or has no reference, by the widest calibration of each family for the model,
// its files and the class, so that what is unknown harms nobody.
type Book struct {
	store *store.Store

	mu   sync.RWMutex
	list map[string][]store.Calibrated // by model
}

// NewBook returns a book without calibrations; Refresh reads them.
func NewBook(s *store.Store) *Book { return &Book{store: s, list: map[string][]store.Calibrated{}} }

// Refresh reads the calibrations that count now.
func (b *Book) Refresh(ctx context.Context) error {
	list := map[string][]store.Calibrated{}
	var after store.StratumKey
	for n := 0; n < maxCalibrations; {
		page, err := b.store.Calibrations(ctx, "", after, store.MaxBatch)
		if err != nil {
			return err
		}
		last := len(page) == store.MaxBatch
		if last { // a stratum that goes on in the next page is read there whole
			after = page[len(page)-1].Stratum
			for len(page) > 0 && page[len(page)-1].Stratum == after {
				page = page[:len(page)-1]
			}
			if len(page) > 0 {
				after = page[len(page)-1].Stratum
			}
		}
		for _, c := range page {
			if c.Calibration.Rules < judge.Version {
				continue // of other rules, so that the stratum is calibrated anew
			}
			list[c.Calibration.Stratum.Model] = append(list[c.Calibration.Stratum.Model], c)
		}
		n += len(page)
		if !last || len(page) == 0 {
			break
		}
	}
	b.mu.Lock()
	b.list = list
	b.mu.Unlock()
	return nil
}

// find returns the calibrations by which a stratum is judged.
func (b *Book) find(t calibration.Stratum) map[evidence.Family]store.Calibrated {
	b.mu.RLock()
	defer b.mu.RUnlock()
	own, widest := map[evidence.Family]store.Calibrated{}, map[evidence.Family]store.Calibrated{}
	for _, c := range b.list[t.Model] {
		k := c.Calibration
		if k.Stratum == t {
			own[k.Family] = c
		}
		// Other files are another model, whose thresholds say nothing of these.
		if k.Stratum.Class != t.Class || k.Stratum.Files != t.Files {
			continue
		}
		if have, there := widest[k.Family]; !there || width(k) > width(have.Calibration) {
			widest[k.Family] = c
		}
	}
	if len(own) > 0 {
		return own
	}
	return widest
}

// width orders calibrations of a family: the larger, the rarer an exceedance.
func width(c calibration.Calibration) float64 {
	sum := 0.0
	for _, part := range c.Largest {
		sum += part
	}
	for _, r := range c.Ratios {
		sum += r.Mean + r.Variance
	}
	return sum
}

// Of implements flow.Calibrations.
func (b *Book) Of(_ context.Context, plan probe.Plan) (map[string][]byte, error) {
	forms := map[string][]byte{}
	for f, c := range b.find(plan.Stratum) {
		form, err := c.Calibration.Encode()
		if err != nil {
			return nil, err
		}
		forms[f.String()] = form
	}
	return forms, nil
}

// WatchOnly reports whether the ladder of a stratum goes no further than watch: it has no
// calibration, or one that reaches no penalty.
func (b *Book) WatchOnly(t calibration.Stratum) bool {
	found := b.find(t)
	for _, c := range found {
		if !c.Penal {
			return true
		}
	}
	return len(found) == 0
}

// Usable reports whether a benchmark's questions can be judged: family B has a calibration,
// and C where log-probabilities are declared.
func (b *Book) Usable(t calibration.Stratum, logprobs bool) bool {
	found := b.find(t)
	_, greedy := found[evidence.Greedy]
	_, stated := found[evidence.Logprobs]
	return greedy && (stated || !logprobs)
}
