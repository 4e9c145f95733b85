package store_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/usage"
)

// BenchmarkRequests runs requests through all that they cost the database:
// admitted in groups, and settled and told of in batches while others are
// admitted.
func BenchmarkRequests(b *testing.B) {
	e, flush := durable(b)
	for _, accounts := range []int{1, 32} {
		for _, writers := range []int{1, 2} {
			b.Run(fmt.Sprintf("%s/accounts=%d/callers=16/writers=%d", flush, accounts, writers), func(b *testing.B) {
				requests(b, e, accounts, writers)
			})
		}
	}
}

func requests(b *testing.B, e *env, accounts, writers int) {
	b.Helper()
	a, stop := admitter(b, e, writers)
	defer stop()
	consumers := make([]consumer, accounts)
	for i := range consumers {
		consumers[i] = e.consumer(b, 1_000_000*money.USD)
	}
	served, told := make(chan hold.Reservation, b.N), make(chan hold.Reservation, b.N)
	var next atomic.Int64
	spent := serverCPU(b, e)
	b.ResetTimer()
	var behind, callers sync.WaitGroup
	behind.Go(func() {
		inBatches(served, func(batch []hold.Reservation) {
			deliveries := make([]usage.Delivery, len(batch))
			for i, c := range batch {
				deliveries[i] = e.served(b, c, 1)
			}
			e.settle(b, usage.Settled, deliveries...)
		})
	})
	behind.Go(func() {
		inBatches(told, func(batch []hold.Reservation) {
			if _, _, err := e.store.Conclude(context.WithoutCancel(b.Context()), reports(batch)); err != nil {
				b.Error(err)
			}
		})
	})
	for range 16 {
		callers.Go(func() {
			for i := next.Add(1) - 1; i < int64(b.N); i = next.Add(1) - 1 {
				c := e.reservation(b, consumers[int(i)%accounts], 1)
				if _, err := a.Admit(b.Context(), c.AdmitRequest); err != nil {
					b.Error(err)
					return
				}
				served <- c
				told <- c
			}
		})
	}
	callers.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
	close(served)
	close(told)
	behind.Wait()
	b.ReportMetric(float64((serverCPU(b, e)-spent).Microseconds())/float64(b.N), "server-µs/op")
}

// inBatches takes what came within a tenth of a second, at most 200 at once.
func inBatches(from <-chan hold.Reservation, do func([]hold.Reservation)) {
	for first := range from {
		batch := []hold.Reservation{first}
		for full := time.After(100 * time.Millisecond); len(batch) < 200; {
			select {
			case c, ok := <-from:
				if !ok {
					do(batch)
					return
				}
				batch = append(batch, c)
				continue
			case <-full:
			}
			break
		}
		do(batch)
	}
}

func reports(claims []hold.Reservation) []hold.RequestReport {
	all := make([]hold.RequestReport, len(claims))
	for i, c := range claims {
		all[i] = hold.RequestReport{
			Request: c.Request, Outcome: "completed", CommittedAttempt: 1, RelayedTokens: 1, RelayedBytes: 100, HTTPStatus: 200,
			Attempts: []hold.Attempt{{Attempt: 1, ProviderID: ids.ProviderID(c.Request).String(), ProviderName: "a",
				HubID: "hub-1", Result: "ok"}},
		}
	}
	return all
}

// serverCPU is the processor time of the server and all its processes, 0 where
// the system does not tell.
func serverCPU(b *testing.B, e *env) time.Duration {
	b.Helper()
	backend := scan[int](b, e, `SELECT pg_backend_pid()`)
	server := stat(backend)[1]
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	ticks := 0
	for _, file := range files {
		pid, _ := strconv.Atoi(strings.Split(file, "/")[2])
		switch fields := stat(pid); {
		case strconv.Itoa(pid) == server:
			ticks += number(fields[13]) + number(fields[14]) // its ended children's
			ticks += number(fields[11]) + number(fields[12])
		case fields[1] == server:
			ticks += number(fields[11]) + number(fields[12])
		}
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// stat are the fields of a process after its name, from its state on.
func stat(pid int) [16]string {
	var out [16]string
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err == nil {
		copy(out[:], strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:])))
	}
	return out
}

func number(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}
