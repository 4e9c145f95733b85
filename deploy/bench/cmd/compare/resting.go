package main

import (
	"context"
	"fmt"
	"time"

	"inference-bench/internal/pause"
	"inference-bench/internal/plan"
	"inference-bench/internal/proc"
)

// idleCPU is what each target spends while nobody asks it anything, in ms of CPU a
// second, all in the same span. Before that they are left alone for two thirds of
// it, so that what they do once after their start is done.
func idleCPU(ctx context.Context, targets []plan.Target, span time.Duration) ([]float64, error) {
	var groups []proc.Group
	for _, t := range targets {
		g, err := t.Group()
		if err != nil {
			return nil, fmt.Errorf("processes of %s: %w", t.Name, err)
		}
		groups = append(groups, g)
	}
	if err := pause.For(ctx, span*2/3); err != nil {
		return nil, err
	}
	begin := time.Now()
	before := make([]map[string]float64, len(groups))
	for i, g := range groups {
		before[i] = g.CPU()
	}
	if err := pause.For(ctx, span); err != nil {
		return nil, err
	}
	out := make([]float64, len(groups))
	for i, g := range groups {
		out[i] = idleMillis(before[i], g.CPU(), time.Since(begin))
	}
	return out, nil
}

// idleMillis is the CPU between two readings by name of process, in ms a second.
func idleMillis(before, after map[string]float64, took time.Duration) float64 {
	_, spent := proc.Spent(before, after)
	return spent * 1000 / took.Seconds()
}

// step is how often others' threads are counted.
const step = 10 * time.Millisecond

// othersLoad rests for so long and returns the mean number of threads that ran
// or waited for a core meanwhile: the load average that is not of our making.
func othersLoad(rest time.Duration) (float64, error) {
	sum, n := 0, 0
	for end := time.Now().Add(rest); n == 0 || time.Now().Before(end); n++ {
		time.Sleep(step)
		running, err := proc.Running()
		if err != nil {
			return 0, err
		}
		sum += others(running)
	}
	return float64(sum) / float64(n), nil
}

// others returns how many threads run or wait beside the caller's own.
func others(running int) int { return max(running-1, 0) }
