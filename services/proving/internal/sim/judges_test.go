package sim_test

import (
	"flag"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"svc.internal/services/proving/internal/sim"
)

var (
	firstSeed = flag.Uint64("judges.seed", 1, "seed of the first history that two judges judge")
	judged    = flag.Uint64("judges.histories", 100, "how many histories two judges judge")
	planted   = flag.String("judges.planted", "", "the planted fault of these histories: fsync, ack or key")
)

// TestTheAuditorSaysWhatTheOracleSays lets both judges look at the same
// histories.
func TestTheAuditorSaysWhatTheOracleSays(t *testing.T) {
	cfg := sim.Config{NoFsync: *planted == "fsync", EarlyAck: *planted == "ack", NoPrimaryKey: *planted == "key"}
	var next, broken, words atomic.Uint64
	var runner sim.Runner
	var known sim.Totals
	var mu sync.Mutex
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for {
				i := next.Add(1) - 1
				if i >= *judged {
					return
				}
				cfg := cfg
				cfg.Seed = *firstSeed + i
				r, err := runner.Run(cfg)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				known.Add(r.Totals)
				mu.Unlock()
				if len(r.Auditor) > 0 {
					broken.Add(1)
				}
				if (len(r.Oracle) > 0) != (len(r.Auditor) > 0) {
					t.Errorf("seed %d: the oracle finds\n  %s\nand the auditor\n  %s",
						cfg.Seed, strings.Join(r.Oracle, "\n  "), strings.Join(r.Auditor, "\n  "))
					continue
				}
				if len(r.Oracle) > 0 && !sameWord(r.Oracle, r.Auditor) {
					words.Add(1)
					t.Logf("seed %d: in other words: the oracle finds\n  %s\nand the auditor\n  %s",
						cfg.Seed, strings.Join(r.Oracle, "\n  "), strings.Join(r.Auditor, "\n  "))
				}
			}
		})
	}
	workers.Wait()
	t.Logf("%d histories, %d broken, %d of them in other words: %+v", *judged, broken.Load(), words.Load(), known)
}

// sameWord reports whether two judges have a verdict in common.
func sameWord(a, b []string) bool {
	verdicts := map[string]bool{}
	for _, text := range a {
		word, _, _ := strings.Cut(text, ":")
		verdicts[word] = true
	}
	for _, text := range b {
		if word, _, _ := strings.Cut(text, ":"); verdicts[word] {
			return true
		}
	}
	return false
}
