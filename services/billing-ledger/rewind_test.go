package billingledger_test

import (
	"testing"
	"time"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/bustest"
	"svc.internal/pkg/pgtest"
)

// A standby that lost the last commits takes the place of the database. The hub
// has forgotten what they settled, so the stream alone has it.
func TestAfterALostCommitARewindSettlesAllOnce(t *testing.T) {
	const kept, lost = 3, 4
	conn := bustest.New(t)
	f := assembleOn(t, conn)
	ready := func(f *fleet) {
		f.run(t)
		f.catalog.snapshots <- models()
		until(t, func() bool { return f.service.Ready(t.Context()) == nil })
	}
	ready(f)
	c := f.consumer(t, "1")
	notices := f.notices(t)
	var requests []string
	for range kept + lost {
		req := order(t, c)
		f.admit(t, req)
		requests = append(requests, req.GetRequestId())
	}
	settle := func(requests []string) {
		for _, id := range requests {
			f.publish(t, served(id))
		}
		for range requests {
			wait(t, notices)
		}
	}
	settle(requests[:kept])

	// The standby is the database as it is now; what follows never reaches it.
	f.stop()
	f.db.Close()
	standby := pgtest.Copy(t, f.url)
	before := f
	f = assembleAt(t, conn, before.url)
	ready(f)
	failed := time.Now()
	settle(requests[kept:])
	all := f.balance(t, c)
	f.stop()

	f = assembleAt(t, conn, standby)
	if n, err := conn.Rewind(t.Context(), bus.UsageStream.Name, bus.DurableBilling, failed.Add(-time.Minute)); err == nil {
		t.Errorf("got %d messages since a minute before the stream was made, want it refused", n)
	}
	if n, err := conn.Rewind(t.Context(), bus.UsageStream.Name, bus.DurableBilling, failed); err != nil || n != lost {
		t.Errorf("got %d messages delivered again, %v, want %d", n, err, lost)
	}
	ready(f)
	for range lost {
		wait(t, notices)
	}
	if got := f.balance(t, c); got != all {
		t.Errorf("got %s, want %s as before the failover", got, all)
	}
	var lines, charged int
	err := f.db.QueryRow(t.Context(),
		`SELECT count(*), count(*) FILTER (WHERE source = 'payg' AND charged > 0) FROM usage_settlement
		WHERE request_id = ANY($1::uuid[])`, requests).Scan(&lines, &charged)
	if err != nil || lines != len(requests) || charged != lines {
		t.Errorf("got %d lines, %d of them charged, %v, want %d", lines, charged, err, len(requests))
	}
	f.noQuarantine(t)
	f.sound(t)

	// Once more, while it runs: nothing changes.
	n, err := conn.Rewind(t.Context(), bus.UsageStream.Name, bus.DurableBilling, failed)
	if err != nil || n != lost {
		t.Errorf("while it runs: got %d messages, %v, want %d", n, err, lost)
	}
	for range lost {
		wait(t, notices)
	}
	if got := f.balance(t, c); got != all {
		t.Errorf("after a second rewind: got %s, want %s", got, all)
	}
	f.noQuarantine(t)
	f.sound(t)
}
