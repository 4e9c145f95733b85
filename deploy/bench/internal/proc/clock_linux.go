package proc

import (
	"time"

	"golang.org/x/sys/unix"
)

// cpuClock is the CPU time of a process, its threads that have ended included.
// /proc counts in hundredths of a second, which is as much as nginx spends on
// hundreds of requests.
func cpuClock(pid int) (time.Duration, error) {
	const scheduler = 2 // CPUCLOCK_SCHED of the kernel's include/linux/posix-timers.h
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|scheduler), &t); err != nil {
		return 0, err
	}
	return time.Duration(t.Nano()), nil
}
