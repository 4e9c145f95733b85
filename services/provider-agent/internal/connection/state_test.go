package connection

import (
	"fmt"
	"strings"
	"testing"

	agentv2 "svc.internal/proto/svc/agent/v2"
)

var (
	stateNames   = []string{"", "registering", "live", "moving", "draining", "leaving", "stopping", "over"}
	triggerNames = []string{
		"acknowledged", "hubDrains", "machineChanged", "givesWay", "relieved", "stops", "emptied", "fails",
	}
)

// writtenTable is the table as people read it; a dot changes nothing.
const writtenTable = `
             acknowledged  hubDrains  machineChanged  givesWay  relieved  stops     emptied  fails
registering  live          .          .               .         over      over      .        over
live         .             draining   moving          draining  leaving   stopping  .        over
moving       .             draining   .               draining  leaving   stopping  .        over
draining     .             .          .               .         leaving   stopping  .        over
leaving      .             .          .               .         .         stopping  over     over
stopping     .             .          .               .         .         .         over     over
over         .             .          .               .         .         .         .        .
`

// readTable returns the cells of writtenTable by state and trigger.
func readTable(t *testing.T) map[string]string {
	t.Helper()
	cells := map[string]string{}
	lines := strings.Split(strings.TrimSpace(writtenTable), "\n")
	heads := strings.Fields(lines[0])
	for _, line := range lines[1:] {
		fields := strings.Fields(line)
		if len(fields) != len(heads)+1 {
			t.Fatalf("the row %q has %d cells, want %d", line, len(fields)-1, len(heads))
		}
		for i, cell := range fields[1:] {
			cells[fields[0]+" "+heads[i]] = cell
		}
	}
	return cells
}

func TestTheTableOfStatesIsTheOneThatIsWrittenDown(t *testing.T) {
	cells := readTable(t)
	if got, want := len(cells), len(stateNames[1:])*len(triggerNames); got != want {
		t.Fatalf("got %d cells, want %d", got, want)
	}
	for from := registering; from <= over; from++ {
		for tr := range triggers {
			cell := stateNames[from] + " " + triggerNames[tr]
			got := "."
			if next := table[from][tr]; next != 0 {
				got = stateNames[next]
			}
			if want := cells[cell]; got != want {
				t.Errorf("%s: got %s, want %s", cell, got, want)
			}
		}
	}
}

// causes pull each trigger as it is pulled in the agent.
var causes = map[trigger]func(t *testing.T, s *session){
	acknowledged: func(t *testing.T, s *session) {
		s.mu.Lock()
		seq := uint32(s.seqIn) + 1
		s.mu.Unlock()
		f := &agentv2.Frame{Seq: seq, Body: &agentv2.Frame_RegisterAck{RegisterAck: &agentv2.RegisterAck{}}}
		_ = s.handle(mustMarshal(t, f)) // a second answer is an ending, which the reader pulls as fails
	},
	hubDrains: func(t *testing.T, s *session) {
		s.mu.Lock()
		seq := uint32(s.seqIn) + 1
		s.mu.Unlock()
		_ = s.handle(mustMarshal(t, &agentv2.Frame{Seq: seq, Body: &agentv2.Frame_Drain{Drain: &agentv2.Drain{}}}))
	},
	machineChanged: func(_ *testing.T, s *session) { s.handOver() },
	givesWay: func(_ *testing.T, s *session) {
		s.onPong(askHeard) // the hub has read DRAIN
		s.giveWay()
	},
	relieved: func(_ *testing.T, s *session) { s.relieve() },
	stops:    func(_ *testing.T, s *session) { s.drain() },
	emptied: func(_ *testing.T, s *session) {
		s.mu.Lock()
		clear(s.streams)
		s.mu.Unlock()
		var b batch
		_ = s.next(&b) // the writer notices
	},
	fails: func(_ *testing.T, s *session) { s.fail(&ending{text: "cut"}) },
}

// paths lead to each state.
var paths = map[state][]trigger{
	registering: {}, live: {acknowledged}, moving: {acknowledged, machineChanged}, draining: {acknowledged, hubDrains},
	leaving: {acknowledged, relieved}, stopping: {acknowledged, stops}, over: {acknowledged, fails},
}

// sessionIn brings a session into a state, with a request open where that can be.
func sessionIn(t *testing.T, at state) *session {
	t.Helper()
	s := newTestSessionUnregistered(t, Config{MaxRequestBytes: 10 << 20}, blocked)
	for _, tr := range paths[at] {
		causes[tr](t, s)
		if tr == acknowledged {
			if why := s.handle(mustMarshal(t, openFrame(1, 1, 100))); why != nil {
				t.Fatalf("why: got %+v, want nil", why)
			}
		}
	}
	if s.state != at {
		t.Fatalf("got %s, want %s", stateNames[s.state], stateNames[at])
	}
	return s
}

func TestEveryStateMeetsEveryTrigger(t *testing.T) {
	cells := readTable(t)
	for from := registering; from <= over; from++ {
		for tr := range triggers {
			cell := stateNames[from] + " " + triggerNames[tr]
			t.Run(strings.ReplaceAll(cell, " ", "/"), func(t *testing.T) {
				s := sessionIn(t, from)
				causes[tr](t, s)
				want := cells[cell]
				if want == "." {
					want = stateNames[from]
				}
				if got := stateNames[s.state]; got != want {
					t.Errorf("got %s, want %s", got, want)
				}
				if got, want := isClosed(s.over), s.state == over; got != want {
					t.Errorf("over is closed: got %v, want %v", got, want)
				}
				if got, want := s.why != nil, s.state == over; got != want {
					t.Errorf("a reason is kept: got %v, want %v", got, want)
				}
				if got := isClosed(s.drained); s.state == draining && !got {
					t.Error("drained is closed: got false, want true")
				}
				if got := isClosed(s.moving); s.state == moving && !got {
					t.Error("moving is closed: got false, want true")
				}
			})
		}
	}
}

func TestOnlyStatesThatTakeRequestsTakeThem(t *testing.T) {
	for from := live; from < over; from++ {
		t.Run(stateNames[from], func(t *testing.T) {
			s := sessionIn(t, from)
			if why := s.handle(mustMarshal(t, openFrame(2, 1, 100))); why != nil {
				t.Fatalf("why: got %+v, want nil", why)
			}
			_, open := s.streams[2]
			if got, want := open, from.takes(); got != want {
				t.Errorf("a request is open: got %v, want %v", got, want)
			}
			if got, want := fmt.Sprint(len(s.streams)), map[bool]string{true: "2", false: "1"}[from.takes()]; got != want {
				t.Errorf("requests under way: got %s, want %s", got, want)
			}
		})
	}
}

// isClosed reports whether a channel is closed.
func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
