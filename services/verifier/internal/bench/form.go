package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// Form returns the only form of the run.
func (r Run) Form() ([]byte, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	b, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("write a benchmark run: %w", err)
	}
	return b, nil
}

// ReadRun reads what Form wrote, and refuses every other form.
func ReadRun(b []byte) (Run, error) {
	if len(b) > maxRun {
		return Run{}, fmt.Errorf("%w: %d bytes", ErrRun, len(b))
	}
	var r Run
	if err := json.Unmarshal(b, &r); err != nil {
		return Run{}, fmt.Errorf("%w: %w", ErrRun, err)
	}
	again, err := r.Form()
	if err != nil {
		return Run{}, err
	}
	if !bytes.Equal(again, b) {
		return Run{}, fmt.Errorf("%w: another form", ErrRun)
	}
	return r, nil
}

// check returns ErrRun for what Begin, ByTraffic, Took, NotAsked, Offline and Lost do not make.
func (r Run) check() error {
	s := r.Setup
	switch {
	case r.ID.IsZero(), s.Offer.Provider.IsZero(), s.Offer.Model == "":
		return fmt.Errorf("%w: it has no id or no offer", ErrRun)
	case !slices.Contains(Bases(), s.Basis), !slices.Contains(All(), r.Stage), r.Stage == Begins, r.Stage == Judging:
		return fmt.Errorf("%w: the basis %.40q, the stage %.40q", ErrRun, s.Basis, r.Stage)
	case s.StatedTokens < 1 || s.StatedTokens > maxStated, s.Capacity < 1 || s.Capacity > MaxCapacity:
		return fmt.Errorf("%w: %d tokens, %d at once", ErrRun, s.StatedTokens, s.Capacity)
	case !(s.ClassMedian >= 0 && s.ClassMedian <= 1e9),
		s.BytesPerToken != 0 && !(s.BytesPerToken >= 1.0/16 && s.BytesPerToken <= 16):
		return fmt.Errorf("%w: a speed of %v, %v bytes a token", ErrRun, s.ClassMedian, s.BytesPerToken)
	case r.Began.Location() != time.UTC || r.StageAt.Location() != time.UTC:
		return fmt.Errorf("%w: its times are not in UTC", ErrRun)
	case len(r.Reports) > maxReports || len(r.Tries) > maxReports:
		return fmt.Errorf("%w: %d reports", ErrRun, len(r.Reports))
	case (r.Traffic != nil) != (s.Basis == Traffic):
		return fmt.Errorf("%w: traffic and its basis contradict each other", ErrRun)
	}
	for _, p := range r.Reports {
		if err := p.check(); err != nil {
			return err
		}
	}
	return nil
}

// maxStated bounds a stated window: a prompt of it is one that can be planned.
const maxStated = 1 << 21
