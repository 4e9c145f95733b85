//go:build !unix

package governor

import "errors"

// meter reads nothing here, because only Unix systems give the CPU time of a process in one way.
type meter struct{}

func newMeter() (*meter, error) { return nil, errors.ErrUnsupported }

func (*meter) read() (totals, error) { return totals{}, errors.ErrUnsupported }
