//go:build !linux

package proc

import (
	"errors"
	"time"
)

func cpuClock(int) (time.Duration, error) { return 0, errors.ErrUnsupported }
