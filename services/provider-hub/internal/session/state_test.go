package session_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"svc.internal/pkg/agentwire"
	. "svc.internal/services/provider-hub/internal/session"
	"svc.internal/services/provider-hub/internal/session/sessiontest"
)

var stateNames = map[State]string{
	Connected: "Connected", Admitting: "Admitting", Held: "Held", Live: "Live", Draining: "Draining",
	Finishing: "Finishing", Closing: "Closing", Ended: "Ended",
}

func stateNamed(t *testing.T, name string) State {
	t.Helper()
	for s, n := range stateNames {
		if n == name {
			return s
		}
	}
	t.Fatalf("no state is called %q", name)
	return 0
}

// grid reads a table: a line of heads, and lines that begin with a state.
func grid(t *testing.T, text, between string) (heads []string, rows map[State][]string) {
	t.Helper()
	split := func(line string) (cells []string) {
		for cell := range strings.SplitSeq(line, between) {
			if cell = strings.TrimSpace(cell); cell != "" {
				cells = append(cells, cell)
			}
		}
		return cells
	}
	rows = map[State][]string{}
	for line := range strings.Lines(strings.TrimSpace(text)) {
		cells := split(line)
		if heads == nil {
			heads = cells
			continue
		}
		if len(cells) != len(heads)+1 {
			t.Fatalf("%q: got %d cells, want %d", line, len(cells)-1, len(heads))
		}
		rows[stateNamed(t, cells[0])] = cells[1:]
	}
	return heads, rows
}

// transitions is the state machine in a form for people. A dot changes nothing.
const transitions = `
           enrols    granted agentDrains hubDrains hubHolds finishes  emptied late    shuts   ends
Connected  Admitting .       .           Closing   .        Closing   .       Closing Closing Ended
Admitting  .         Live    .           Closing   Held     Closing   .       .       Closing Ended
Held       .         .       .           .         .        Closing   .       .       Closing Ended
Live       .         .       Draining    Draining  Draining Finishing .       .       Closing Ended
Draining   .         .       .           .         .        Finishing .       .       Closing Ended
Finishing  .         .       .           .         .        .         Closing .       Closing Ended
Closing    .         .       .           .         .        .         .       .       .       Ended
Ended      .         .       .           .         .        .         .       .       .       .
`

func TestTheTableIsTheOneThatIsWrittenDown(t *testing.T) {
	heads, rows := grid(t, transitions, " ")
	if len(heads) != len(Triggers) || len(rows) != len(stateNames) {
		t.Fatalf("got %d triggers and %d states, want %d and %d", len(heads), len(rows), len(Triggers), len(stateNames))
	}
	for from, row := range rows {
		for n, want := range row {
			if heads[n] != Triggers[n] {
				t.Fatalf("trigger %d: got %q, want %q", n, heads[n], Triggers[n])
			}
			got := "."
			if to := Moves(from, n); to != 0 {
				got = stateNames[to]
			}
			if got != want {
				t.Errorf("%s, %s: got %s, want %s", stateNames[from], heads[n], got, want)
			}
		}
	}
}

// What an agent and a hub may do to a session in each state, by the strict rules. An
// entry is the state after the trigger, or a dot where the state stays. "x" and a code
// stand where the session closes and the agent is told the code. After a plus stands what
// else the agent is sent, or "touch" for that call of the registrar. "admitted" means
// that the session joined, was answered, and was touched. A dash cannot be.
const strictCauses = `
          | enrols | granted | agentDrains | hubDrains | finishes | emptied | late | shuts | ends
Connected|Admitting | . | x protocol_error | x shutting_down | x suspended | - | x register_timeout|x superseded|Ended
Admitting | x protocol_error | Live +admitted | x protocol_error | x shutting_down | x suspended|-|.|x superseded|Ended
Live      | x protocol_error | . | Draining +touch | Draining +drain | Finishing | . | . | x superseded | Ended
Draining  | x protocol_error | . | . | . +drain | Finishing | . | . | x superseded | Ended
Finishing | x protocol_error | . | . | . +drain | . | x suspended | . | x superseded | Ended
Closing   | . | . | . | . | . | . | . | . | Ended
Ended     | . | . | . | . | . | . | . | . | -
`

const lenientCauses = `
          | enrols | granted | hubHolds | finishes | emptied | late | shuts | ends
Connected | Admitting | . | . | x suspended | - | x register_timeout | x superseded | Ended
Admitting | . | Live +admitted | Held | x suspended | - | . | x superseded | Ended
Held      | . | . | . | x suspended | - | . | x superseded | Ended
Live      | . +registered | . | Draining | Finishing | . | . | x superseded | Ended
Draining  | . +registered | . | . | Finishing | . | . | x superseded | Ended
Finishing | . +registered | . | . | . | x suspended | . | x superseded | Ended
Closing   | . | . | . | . | . | . | . | Ended
Ended     | . | . | . | . | . | . | . | -
`

// rules are the two sets of rules that agents speak by, as limits without a dialect.
var rules = map[string]Limits{
	"strict":  {Name: "v2", Strict: true, Streams: 4096, Silence: time.Hour, WarmsUp: true},
	"lenient": {Name: "v1", Streams: 50, Silence: time.Hour, Total: 5 * time.Minute, WarmsUp: true},
}

// driven is a session that is driven by decoded messages.
type driven struct {
	*Session
	t      *testing.T
	strict bool
	desk   *sessiontest.Registrar
	seq    uint32 // of stream 0
	live   int    // how often the session called registered
	st     *Stream
}

func drive(t *testing.T, limits Limits) *driven {
	t.Helper()
	return driveIn(t, environment(Config{}, &sessiontest.Registrar{}), limits)
}

func driveIn(t *testing.T, env *Env, limits Limits) *driven {
	t.Helper()
	d := &driven{t: t, strict: limits.Strict, desk: env.Registrar.(*sessiontest.Registrar)}
	d.Session = New(env, limits, func() {}, func() { d.live++ })
	d.Begin()
	return d
}

// says gives the session a message, and closes the session for a returned reason, as the
// gate does.
func (d *driven) says(in Inbound) {
	if in.Stream == 0 {
		d.seq++
		in.Seq = d.seq
	}
	if why := d.Receive(&in); why != nil {
		d.Shut(why)
	}
}

// pull is how each trigger comes about.
func (d *driven) pull(trigger string) {
	switch trigger {
	case "enrols":
		d.says(Inbound{Kind: KindRegister, Register: &Register{
			Reply: "r", Node: "node-0001", Credential: Credential{Key: "good"},
			Models: Models{Replaces: true, List: []ModelNews{{Offer: Offer{Model: "m", Healthy: true}, Whole: true}}},
		}})
	case "granted":
		if why := d.Admit(Grant{Epoch: 1, Active: true}); why != nil {
			d.Shut(why)
		}
	case "agentDrains":
		d.says(Inbound{Kind: KindDrain})
	case "hubDrains", "hubHolds":
		d.Drain(time.Second)
	case "finishes":
		d.Finish(ClosingFor(agentwire.CodeSuspended, "x"))
	case "emptied":
		in := Inbound{Kind: KindEnd, Stream: 1, Seq: 1, End: &End{Status: 200}}
		if !d.strict {
			in = Inbound{Kind: KindEnd, Name: []byte("q-1"), End: &End{Status: 200}}
		}
		d.says(in)
	case "late":
		time.Sleep(11 * time.Second) //nolint:forbidigo // of a synctest bubble
		synctest.Wait()
	case "shuts":
		d.Shut(ClosingFor(agentwire.CodeSuperseded, "x"))
	case "ends":
		d.SocketClosed()
		d.End()
	default:
		d.t.Fatalf("nobody pulls %q", trigger)
	}
}

// bring brings a new session to a state. A session that was registered has a request that
// its agent was sent.
func (d *driven) bring(to State) {
	d.t.Helper()
	switch to {
	case Connected:
	case Admitting:
		d.pull("enrols")
	case Held:
		d.bring(Admitting)
		d.pull("hubHolds")
	case Live:
		d.bring(Admitting)
		d.pull("granted")
		st, err := d.Open(Request{RequestID: "q", Model: "m", Stream: true, Body: []byte("{}")})
		if err != nil {
			d.t.Fatal(err)
		}
		d.st = st
	case Draining:
		d.bring(Live)
		if d.strict {
			d.pull("agentDrains")
		} else {
			d.pull("hubHolds")
		}
	case Finishing:
		d.bring(Live)
		d.pull("finishes")
	case Closing:
		d.bring(Live)
		d.Shut(ClosingFor(agentwire.CodeTryLater, "x"))
	case Ended:
		d.bring(Live)
		d.pull("ends")
	}
	if d.State() != to {
		d.t.Fatalf("brought to %s: got %d, want %d, with %s", stateNames[to], d.State(), to, stateNames[d.State()])
	}
	d.sent()
}

var outNames = map[OutKind]string{
	OutRegistered: "registered", OutHeartbeat: "heartbeat", OutOpen: "open", OutData: "data", OutCredit: "credit",
	OutCancel: "cancel", OutReset: "reset", OutDrain: "drain", OutWarmUp: "warmup", OutReceipts: "receipts",
}

// sent is the kinds of the messages that the agent is sent, and why the connection ends.
func (d *driven) sent() (kinds []string, code string) {
	var o Outbox
	d.Next(&o)
	for _, m := range o.Messages {
		if m.Kind == OutFarewell {
			return kinds, m.Why.Code
		}
		kinds = append(kinds, outNames[m.Kind])
	}
	return kinds, ""
}

// outcome pulls a trigger, and says the outcome in words.
func (d *driven) outcome(trigger string) string {
	from := d.State()
	before := d.desk.Heard()
	d.pull(trigger)
	after := d.desk.Heard()
	state := d.State()
	words := []string{stateNames[state]}
	if state == from {
		words[0] = "."
	}
	if state != Ended {
		kinds, code := d.sent()
		switch {
		case (code != "") != (state == Closing):
			d.t.Errorf("%s: told the code %q", stateNames[state], code)
		case from == Closing && code != agentwire.CodeTryLater:
			d.t.Errorf("told the code %q, want the first", code)
		case state == Closing && from != Closing:
			words = []string{"x", code}
		}
		if len(after.Joined) > len(before.Joined) {
			words = append(words, "+join")
		}
		for _, kind := range kinds {
			words = append(words, "+"+kind)
		}
	}
	for range after.Touched - before.Touched {
		words = append(words, "+touch")
	}
	return strings.Join(words, " ")
}

func TestEveryStateMeetsEveryTrigger(t *testing.T) {
	for name, causes := range map[string]string{"strict": strictCauses, "lenient": lenientCauses} {
		heads, rows := grid(t, causes, "|")
		for from, row := range rows {
			for n, want := range row {
				if want == "-" {
					continue
				}
				t.Run(fmt.Sprintf("%s/%s/%s", name, stateNames[from], heads[n]), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { meets(t, rules[name], from, heads[n], want) })
				})
			}
		}
	}
}

// meets has a session in a state meet a trigger.
func meets(t *testing.T, limits Limits, from State, trigger, want string) {
	d := drive(t, limits)
	d.bring(from)
	want = strings.ReplaceAll(want, "+admitted", "+join +registered +touch")
	if got := d.outcome(trigger); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if state := d.State(); d.st != nil {
		lost := (state == Closing || state == Ended) && (trigger != "emptied" || from >= Closing)
		if _, _, err := d.st.Take(); errors.Is(err, ErrLost) != lost {
			t.Errorf("the open request: got %v, want it lost: %v", err, lost)
		}
	}
	wasLive := from >= Live || d.State() == Live
	if (d.live == 1) != wasLive {
		t.Errorf("told %d times to be registered: d.live == 1: got %t, want %t", d.live, d.live == 1, wasLive)
	} else if d.live > 1 {
		t.Errorf("told to be registered: d.live: got %d, want at most 1", d.live)
	}
	if d.State() != Ended {
		d.pull("ends")
	}
	<-d.Done()
}

func TestASessionThatFinishesWithNothingOpenClosesAtOnce(t *testing.T) {
	for name, limits := range rules {
		synctest.Test(t, func(t *testing.T) {
			d := drive(t, limits)
			d.pull("enrols")
			d.pull("granted")
			d.sent()
			if got, want := d.outcome("finishes"), "x suspended"; got != want {
				t.Errorf("%s: got %q, want %q", name, got, want)
			}
			d.pull("ends")
		})
	}
}

// What calls do in each state: the answers of Open and WarmUp, and what View says.
const calls = `
          | Open | WarmUp | registered | draining
Connected | gone | gone   | no         | no
Admitting | gone | gone   | no         | no
Held      | gone | gone   | no         | no
Live      | yes  | yes    | yes        | no
Draining  | gone | gone   | yes        | yes
Finishing | gone | gone   | yes        | yes
Closing   | gone | gone   | no         | no
Ended     | gone | gone   | no         | no
`

func TestWhatCallsDoInEachState(t *testing.T) {
	answer := func(err error) string {
		switch {
		case err == nil:
			return "yes"
		case errors.Is(err, ErrGone):
			return "gone"
		default:
			return err.Error()
		}
	}
	yes := map[bool]string{true: "yes", false: "no"}
	_, rows := grid(t, calls, "|")
	for name, limits := range rules {
		for state, want := range rows {
			if state == Held && limits.Strict {
				continue
			}
			synctest.Test(t, func(t *testing.T) {
				d := drive(t, limits)
				d.bring(state)
				_, opens := d.Open(Request{RequestID: "q", Model: "m", Body: []byte("{}")})
				warms := d.WarmUp("m")
				v, registered := d.View()
				got := []string{answer(opens), answer(warms), yes[registered], yes[registered && v.Draining]}
				if fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("%s, %s: got %v, want %v", name, stateNames[state], got, want)
				}
				if state != Ended {
					d.pull("ends")
				}
			})
		}
	}
}

func TestNobodyOpensARequestOnASocketThatIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := drive(t, rules["strict"])
		d.bring(Live)
		if !d.SocketClosed() {
			t.Error("with a request: got no request under way, want one")
		}
		if _, err := d.Open(Request{Model: "m"}); !errors.Is(err, ErrGone) {
			t.Errorf("got %v, want %v", err, ErrGone)
		}
		if v, ok := d.View(); !ok || v.Draining {
			t.Errorf("a session that waits for its turn to end: got live %v, draining %v, want live alone", ok, v.Draining)
		}
		d.End()
	})
}

func TestRefusedByTheRegistrarIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := drive(t, rules["strict"])
		d.desk.Why = &CloseReason{Code: agentwire.CodeTooManySessions}
		d.pull("enrols")
		why := d.Admit(Grant{Epoch: 1})
		if why == nil || why.Code != agentwire.CodeTooManySessions || why.Hold != 2*time.Second {
			t.Errorf("got %+v, want %s, held for 2s", why, agentwire.CodeTooManySessions)
		}
		d.pull("ends")
	})
}

func TestACredentialIsGivenOutOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := drive(t, rules["lenient"])
		if _, ok := d.Enrolment(); ok {
			t.Error("before the registration: got a credential, want none")
		}
		d.pull("enrols")
		if c, ok := d.Enrolment(); !ok || c.Key != "good" {
			t.Errorf("got %+v, %v, want the one that was shown", c, ok)
		}
		if _, ok := d.Enrolment(); ok {
			t.Error("again: got a credential, want none")
		}
		d.pull("ends")
	})
}
