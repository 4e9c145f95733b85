package main

import (
	"fmt"
	"time"

	"inference-bench/internal/sheet"
	"inference-bench/internal/steady"
	"inference-bench/internal/vitals"
)

// crowdFigures are what was measured of the crowd.
type crowdFigures struct {
	floor, bare   float64 // KiB
	before, after memory
	measured      bool
	back, routed  time.Duration
	refusals      int // of dials, while agents came back
	losses        int // of connections then
	quiet, during steady.Figures
	slow          int               // took more than twice the quiet p99
	last          time.Duration     // behind the cut when the last of them was due
	twice         [2]steady.Figures // quiet before and behind the cut
	resident      int64             // of both when all are back
}

// fill puts the figures into the sheet. A figure that was not measured has no value, and
// the note of the first row has the reason.
func (f *crowdFigures) fill(b *bench, failure error) {
	why := ""
	if failure != nil {
		why = failure.Error()
	}
	each := func(bytes int64) *float64 {
		if !f.measured {
			return nil
		}
		return new(float64(bytes) / 1024 / float64(b.agents))
	}
	hub, router := f.after.hub-f.before.hub, f.after.router-f.before.router
	live := func(before, after vitals.Live) (*float64, string) {
		heap, stacks := each(after.Heap-before.Heap), each(after.Stacks-before.Stacks)
		if heap == nil {
			return nil, ""
		}
		return new(*heap + *stacks), fmt.Sprintf("heap %s, stacks %s", sheet.Number(*heap), sheet.Number(*stacks))
	}
	part := "memory"
	b.sheet.Add(sheet.Row{Part: part, Figure: "a session, hub and router", Unit: "KiB", Value: each(hub + router),
		Gate: new(100.0), Aim: new(30.0), Note: why})
	b.sheet.Add(sheet.Row{Part: part, Figure: "of it the hub", Unit: "KiB", Value: each(hub)})
	b.sheet.Add(sheet.Row{Part: part, Figure: "of it the router's view", Unit: "KiB", Value: each(router)})
	value, note := live(f.before.hubLive, f.after.hubLive)
	b.sheet.Add(sheet.Row{Part: part, Figure: "in use behind a collection, hub", Unit: "KiB", Value: value, Note: note})
	value, note = live(f.before.rtLive, f.after.rtLive)
	b.sheet.Add(sheet.Row{Part: part, Figure: "in use behind a collection, router", Unit: "KiB", Value: value, Note: note})
	b.sheet.Add(sheet.Row{Part: part, Figure: "a bare socket of the hub", Unit: "KiB", Value: positive(f.bare),
		Gate: new(24.0), Note: "in use behind a collection; it has not registered"})
	b.sheet.Add(sheet.Row{Part: part, Figure: "a bare socket of wsfloor", Unit: "KiB", Value: positive(f.floor),
		Note: "resident; a WebSocket with a queue of 1,024 messages, and nothing else"})
	cut := f.quiet.Requests > 0
	b.sheet.Add(sheet.Row{Part: part, Figure: "a session once all were cut and are back", Unit: "KiB",
		Value: measured(cut, float64(f.resident-f.before.hub-f.before.router)/1024/float64(b.agents))})
	part = "mass cut"
	b.sheet.Add(sheet.Row{Part: part, Figure: "all registered again", Unit: "s", Value: positive(f.back.Seconds()),
		Gate: new(60.0), Note: fmt.Sprintf("%d dials refused on the way, %d connections lost again", f.refusals, f.losses)})
	b.sheet.Add(sheet.Row{Part: part, Figure: "all in the router's view again", Unit: "s",
		Value: positive(f.routed.Seconds()), Gate: new(60.0)})
	b.sheet.Add(sheet.Row{Part: part, Figure: "p99 of unaffected requests, to quiet", Unit: "×", Value: measured(cut &&
		f.quiet.P99 > 0, f.during.P99/f.quiet.P99), Gate: new(2.0), Strict: true,
		Note: fmt.Sprintf("%d of %d took more than twice as long, the last %s s behind the cut; %d failed %s",
			f.slow, f.during.Requests, sheet.Number(f.last.Seconds()), f.during.Failed, f.during.Fault)})
	b.sheet.Add(sheet.Row{Part: part, Figure: "p50 and p99 while all come back, ms", Value: measured(cut, f.during.P50),
		Note: fmt.Sprintf("p99 %s, longest %s", sheet.Number(f.during.P99), sheet.Number(f.during.Max))})
	b.sheet.Add(sheet.Row{Part: part, Figure: "p50 and p99 when it is quiet, ms", Value: measured(cut, f.quiet.P50),
		Note: fmt.Sprintf("p99 %s (before %s, behind %s), longest %s, %d failed",
			sheet.Number(f.quiet.P99), sheet.Number(f.twice[0].P99), sheet.Number(f.twice[1].P99), sheet.Number(f.quiet.Max),
			f.quiet.Failed)})
}

func measured(ok bool, v float64) *float64 {
	if !ok {
		return nil
	}
	return &v
}

// positive is a value that is not measured when it is 0.
func positive(v float64) *float64 { return measured(v > 0, v) }
