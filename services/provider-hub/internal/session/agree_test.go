package session

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	wireframe "svc.internal/pkg/agentwire/frame"
	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/workreceipt"
	agentv2 "svc.internal/proto/svc/agent/v2"
	forms "svc.internal/services/provider-hub/internal/dialect"
	formv1 "svc.internal/services/provider-hub/internal/dialect/v1"
	formv2 "svc.internal/services/provider-hub/internal/dialect/v2"
	"svc.internal/services/provider-hub/internal/meter"
	"svc.internal/services/provider-hub/internal/quota"
	next "svc.internal/services/provider-hub/internal/sessionnext"
	"svc.internal/services/provider-hub/internal/sessionnext/sessiontest"
)

// newPile counts receipts for the new session.
type newPile struct{ n int }

func (p *newPile) Receive(_ *next.Session, all []next.Receipt) { p.n += len(all) }

// both are an old and a new session that are told the same things.
type both struct {
	t      *testing.T
	strict bool
	script []byte
	log    []string

	old      *Session
	house    *house
	oldDesk  *desk
	oldPile  *pile
	fresh    *next.Session
	speak    *forms.Dialect
	env      *next.Env
	desk     *sessiontest.Registrar
	freshly  *newPile
	in       next.Inbound
	lookUps  sync.WaitGroup
	draining bool
	blocked  bool

	streams []pair
	seq     map[uint32]uint32
	said    int // bytes of messages
	over    bool
}

// pair is one request on both.
type pair struct {
	old   *Stream
	fresh *next.Stream
	id    uint32
}

func agree(t *testing.T, strict bool, script []byte) {
	for len(script) > 0 && !t.Failed() {
		b := &both{t: t, strict: strict, script: script, seq: map[uint32]uint32{}}
		b.begin()
		for len(b.script) > 0 && !t.Failed() && !b.over && b.old.phase < phaseClosing {
			b.op()
			// Timers of two operations never fire in the same instant, in an order of chance.
			time.Sleep(time.Nanosecond) //nolint:forbidigo // of a synctest bubble
			synctest.Wait()
			b.compare()
		}
		for range 3 { // behind the end
			if len(b.script) > 0 && !t.Failed() && !b.over {
				b.op()
				synctest.Wait()
				b.compare()
			}
		}
		b.end()
		if t.Failed() {
			t.Log(strings.Join(b.log, "\n"))
		}
		script = b.script
	}
}

func (b *both) begin() {
	variant := b.byte()
	cfg := Config{AdmitTimeout: 10_000 * time.Hour}
	if variant&1 != 0 {
		cfg.ConnWindow, cfg.StreamWindow, cfg.HeldBudget = 192<<10, 64<<10, 8*160<<10
	}
	cfg = cfg.WithDefaults()
	b.oldDesk, b.desk, b.oldPile, b.freshly = &desk{}, &sessiontest.Registrar{}, &pile{}, &newPile{}
	if b.blocked = variant&2 != 0; b.blocked {
		b.oldDesk.wait, b.desk.Wait = make(chan struct{}), make(chan struct{})
	}
	if variant&4 != 0 {
		b.oldDesk.warning, b.desk.Warning = "look", "look"
	}
	b.house = newHouse(cfg, Deps{Registrar: b.oldDesk, Receipts: b.oldPile, Clock: clock.System, Counts: &Counts{}})
	b.house.queue.open()
	b.house.door.enter(netip.Addr{})
	begin := speakV1
	b.speak = formv1.New(formv1.Config{
		SessionTimeout: cfg.V1.SessionTimeout, RefuseHold: cfg.V1.RefuseHold, MinAge: cfg.V1.MinAge,
		Patience: cfg.V1.Patience, MaxTotal: cfg.V1.MaxTotal,
	})
	if b.strict {
		begin, b.speak = speakV2, formv2.New(cfg.SessionTimeout)
	}
	b.old = newSession(b.house, begin, netip.Addr{})
	b.env = &next.Env{
		Config: next.Config{
			RegisterTimeout: cfg.RegisterTimeout, RefuseHold: cfg.RefuseHold, HeartbeatInterval: cfg.HeartbeatInterval,
			CancelGrace: cfg.CancelGrace, StreamWindow: cfg.StreamWindow, ConnWindow: cfg.ConnWindow,
		},
		Registrar: b.desk, Receipts: b.freshly, Clock: clock.System, Counts: &next.Counts{},
		Held: quota.NewBudget(cfg.HeldBudget),
	}
	b.fresh = next.New(b.env, b.speak.Limits, func() {})
	b.old.begin()
	b.fresh.Begin()
	if variant&8 == 0 { // most scripts begin with a registration
		b.message(255, 0)
		synctest.Wait()
		b.output()
		if variant&16 == 0 && !b.blocked {
			for c := range byte(4) {
				b.open(c << 5)
			}
			b.output()
		}
	}
}

// end closes both sockets and looks at what is left.
func (b *both) end() {
	b.output()
	for i := range b.streams {
		b.take(i, 0)
	}
	if !b.over {
		b.closeSockets()
	}
	b.compare()
	for i := range b.streams {
		b.take(i, 0)
		b.streams[i].old.Close(true)
		b.streams[i].fresh.Close(true)
	}
	if got, want := b.env.Held.Left(), left(b.house.held); got != want {
		b.t.Errorf("the budget in the end: got %d, want %d", got, want)
	}
}

func (b *both) closeSockets() {
	b.over = true
	if b.blocked {
		b.unblock()
	}
	synctest.Wait()
	b.output()
	b.old.end()
	b.fresh.SocketClosed()
	b.fresh.End()
	b.lookUps.Wait()
	b.desk.Leave(b.fresh)
	synctest.Wait()
}

func (b *both) unblock() {
	b.blocked = false
	close(b.oldDesk.wait)
	close(b.desk.Wait)
}

func (b *both) byte() byte {
	if len(b.script) == 0 {
		return 0
	}
	c := b.script[0]
	b.script = b.script[1:]
	return c
}

func (b *both) note(format string, args ...any) { b.log = append(b.log, fmt.Sprintf(format, args...)) }

func (b *both) same(what string, got, want any) {
	b.t.Helper()
	if !reflect.DeepEqual(got, want) {
		b.t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// op plays one operation on both.
func (b *both) op() {
	switch op := b.byte() % 32; op {
	default: // more than half of all
		b.message(int(b.byte()), b.byte())
	case 15:
		template, target, n := b.byte()%nasty, b.byte()%240, int(b.byte())%128
		for range n {
			b.message(int(template), target)
			synctest.Wait() // for a look-up that the message began
			if b.old.phase >= phaseClosing || b.t.Failed() || b.said > 4<<20 {
				break
			}
		}
	case 16, 17:
		b.open(b.byte())
	case 18, 19:
		if i, ok := b.pick(); ok {
			b.take(i, b.byte())
		}
	case 20:
		if i, ok := b.pick(); ok {
			cancel := b.byte()&1 == 0
			b.note("close %d %v", i, cancel)
			b.streams[i].old.Close(cancel)
			b.streams[i].fresh.Close(cancel)
		}
	case 21:
		if i, ok := b.pick(); ok {
			b.note("cancel %d", i)
			b.streams[i].old.Cancel()
			b.streams[i].fresh.Cancel()
		}
	case 22:
		b.liveness(b.byte())
	case 23:
		model, examine := []string{"m", "n", "none"}[b.byte()%3], b.byte()&1 == 0
		b.note("warm up %s %v", model, examine)
		got, want := b.fresh.WarmUp, b.old.WarmUp
		if examine {
			got, want = b.fresh.Examine, b.old.Examine
		}
		b.same("warm up", said2(got(model)), said2(want(model)))
	case 24:
		c := b.byte()
		uptime := float64(c)
		b.note("standing %d", c)
		b.same("standing", b.fresh.SetStanding(c&1 != 0, c&2 != 0, &uptime), b.old.SetStanding(c&1 != 0, c&2 != 0, &uptime))
	case 25:
		b.close(b.byte())
	case 26, 27:
		d := []time.Duration{
			10 * time.Millisecond, time.Second, 9 * time.Second, 31 * time.Second, 96 * time.Second, 301 * time.Second,
		}[b.byte()%6]
		b.note("sleep %v", d)
		time.Sleep(d) //nolint:forbidigo // of a synctest bubble
	case 28, 29, 30:
		b.note("output")
		b.output()
	case 31:
		b.rarely(b.byte())
	}
}

// said2 is an error as text, because both have errors of their own.
func said2(err error) string { return fmt.Sprint(err) }

func (b *both) pick() (int, bool) {
	if len(b.streams) == 0 {
		return 0, false
	}
	return int(b.byte()) % len(b.streams), true
}

func (b *both) open(c byte) {
	r := Request{
		RequestID: "r", Attempt: 1, Model: []string{"m", "m", "n", "none"}[c%4], Stream: c&4 == 0,
		Kind: []meter.Kind{meter.Chat, meter.Chat, meter.Chat, meter.Embeddings}[c>>3&3],
		Body: []byte(`{"model":"m","x":"` + strings.Repeat("y", []int{0, 10, 20 << 10, 300 << 10}[c>>5&3]) + `"}`),
	}
	if c&0x80 != 0 {
		r.Body = r.Body[:len(r.Body)-1]
	}
	b.note("open %+v of %d bytes", r.Model, len(r.Body))
	old, oldErr := b.old.Open(r)
	fresh, err := b.fresh.Open(next.Request{
		RequestID: r.RequestID, Attempt: r.Attempt, Model: r.Model, Stream: r.Stream, Kind: r.Kind, Body: r.Body,
	})
	b.same("open", said2(err), said2(oldErr))
	if oldErr == nil && err == nil {
		b.same("engine model", fresh.EngineModel(), old.EngineModel())
		b.streams = append(b.streams, pair{old, fresh, old.id})
	}
}

// take takes what has arrived, and passes a part of that on.
func (b *both) take(i int, part byte) {
	p := b.streams[i]
	select {
	case <-p.old.Ready():
	default:
	}
	piece, end, err := p.old.Take()
	got, gotEnd, gotErr := p.fresh.Take()
	b.note("take %d: %d bytes, %v, %v", i, len(piece), end, err)
	if !bytes.Equal(got, piece) {
		b.t.Errorf("take: got %.300q, want %.300q", got, piece)
	}
	b.same("take: error", said2(gotErr), said2(err))
	b.same("take: end", gotEnd != nil, end != nil)
	if end != nil && gotEnd != nil {
		b.same("take: end", *gotEnd, next.End(*end))
	}
	n := len(piece)
	if part&1 != 0 {
		n /= 2
	}
	p.old.Release(n, piece)
	p.fresh.Release(n, got)
}

func (b *both) liveness(c byte) {
	b.note("liveness %d", c%3)
	switch c % 3 {
	case 0:
		b.reason(b.fresh.Ping([]byte{c}), b.old.onPing([]byte{c}))
	case 1:
		b.reason(b.fresh.Pong(), b.old.onPong())
	case 2:
		if len(b.streams) > 0 {
			b.streams[0].old.Probe()
			b.streams[0].fresh.Probe()
		}
	}
}

// close pulls what ends or drains a session from outside.
func (b *both) close(c byte) {
	b.note("close %d", c%8)
	old := &Closing{Code: CodeSuspended, Message: "x", Hold: 3 * time.Second, ReconnectAfter: time.Second}
	fresh := &next.CloseReason{Code: old.Code, Message: old.Message, Hold: old.Hold, ReconnectAfter: old.ReconnectAfter}
	switch c % 8 {
	case 0, 1, 2:
		b.draining = true
		b.house.queue.close() // as Server.Drain does
		b.old.Drain(time.Second)
		b.fresh.Drain(time.Second)
	case 3, 4:
		b.old.Finish(old)
		b.fresh.Finish(fresh)
	case 5:
		b.old.Shut(old)
		b.fresh.Shut(fresh)
	case 6:
		old, fresh := shuttingDown(), next.ShuttingDown(time.Second)
		old.ReconnectAfter = time.Second
		b.old.Shut(old)
		b.fresh.Shut(fresh)
	case 7:
		b.closeSockets()
	}
}

func (b *both) rarely(c byte) {
	b.note("rarely %d", c%5)
	switch c % 5 {
	case 0:
		if b.blocked {
			b.unblock()
		}
	case 1:
		b.old.Forged()
		b.fresh.Forged()
	case 2:
		n := int(b.byte())
		acks := make([]Acknowledged, n)
		all := make([]next.Acknowledged, n)
		for i := range n {
			key := workreceipt.Key{Request: ids.RequestID{byte(i)}, Attempt: 1}
			acks[i], all[i] = Acknowledged{Key: key}, next.Acknowledged{Key: key}
		}
		b.old.AckReceipts(acks)
		b.fresh.AckReceipts(all)
	case 3, 4:
		if b.strict {
			return
		}
		head := []byte(chunk(b.name(b.byte()), "{}", false))[:int(b.byte())%90]
		b.reason(b.fresh.Discarded(b.speak.Name(head), 1<<20), b.old.wire.discarded(head, 1<<20))
	}
}

// nasty is from where on templates are of messages that end most connections.
const nasty = 232

// message gives both a message: a template with a target, and now and then a byte of it
// changed.
func (b *both) message(template int, target byte) {
	var msg []byte
	if b.strict {
		msg = b.frame(template, target)
	} else {
		list := b.cachedTexts(b.name(target))
		if template >= nasty {
			list = b.nastyTexts()
		}
		msg = []byte(list[template%len(list)])
	}
	if target >= 240 && len(msg) > 0 {
		msg[int(b.byte())%len(msg)] ^= 1 << (b.byte() % 8)
	}
	if !b.strict && (!utf8.Valid(msg) || folded(msg)) || b.strict && twice(msg) {
		return
	}
	b.note("message %.200q", msg)
	b.said += len(msg)
	var want *Closing
	if !b.old.deaf.Load() {
		want = b.old.wire.receive(slices.Clone(msg))
	}
	strange := b.strict && odd(msg)
	fresh := b.receive(msg)
	if strange && want != nil && fresh != nil {
		want.Message = fresh.Message // deviation 2: of DATA that no encoder makes the code stays
	}
	b.reason(fresh, want)
}

// twice reports whether a heartbeat names a model twice (deviation 6): what is named is
// all there is now, whereas the old session believed in as many models as before.
func twice(msg []byte) bool {
	f, err := wireframe.Read(msg)
	if err != nil {
		return false
	}
	seen := map[string]bool{}
	for _, m := range f.GetHeartbeat().GetModels() {
		if seen[m.GetModelId()] {
			return true
		}
		seen[m.GetModelId()] = true
	}
	return false
}

// folded reports whether a member that encoding/json finds in any case has another than
// agents write it in (deviation 3).
func folded(msg []byte) bool {
	if len(msg) > 4<<10 {
		return false
	}
	for _, name := range []string{`"success"`, `"load_time_ms"`, `"message"`} {
		if strings.Contains(strings.ToLower(strings.ReplaceAll(string(msg), name, "")), name) {
			return true
		}
	}
	return false
}

// odd reports whether a message is DATA that no encoder makes.
func odd(msg []byte) bool {
	_, plain := wireframe.ReadData(msg)
	f, err := wireframe.Read(msg)
	return !plain && err == nil && f.GetData() != nil
}

// receive does with a message what the gate does.
func (b *both) receive(msg []byte) *next.CloseReason {
	if err := b.speak.Decode(msg, &b.in); err != nil {
		return b.fresh.Unreadable(err)
	}
	why := b.fresh.Receive(&b.in)
	if c, ok := b.fresh.Enrolment(); ok {
		b.lookUps.Go(func() { b.lookUp(c) })
	}
	clear(msg) // it is not the session's
	return why
}

func (b *both) lookUp(c next.Credential) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	b.lookUps.Go(func() {
		select {
		case <-b.fresh.Done():
			cancel()
		case <-ctx.Done():
		}
	})
	err := b.desk.Check(c)
	var g next.Grant
	if err == nil && !b.draining {
		g, err = b.desk.Admit(ctx, c)
	}
	if ctx.Err() != nil || b.draining {
		return
	}
	if err == nil {
		if why := b.fresh.Admit(g); why != nil {
			b.fresh.Shut(why)
		}
		return
	}
	why := next.Refused(b.env.Config, CodeTryLater, "the hub cannot check keys now")
	if f, ok := fault.As(err); ok {
		why = next.Refused(b.env.Config, CodeInvalidKey, f.Message)
	}
	b.fresh.Shut(why)
}

// reason compares why both end, and ends them.
func (b *both) reason(got *next.CloseReason, want *Closing) {
	b.t.Helper()
	b.same("reason", reasonOf(got), oldReason(want))
	if want != nil {
		b.note("closes: %v", want)
		b.old.Shut(want)
	}
	if got != nil {
		b.fresh.Shut(got)
	}
}

func reasonOf(c *next.CloseReason) string {
	if c == nil {
		return ""
	}
	return fmt.Sprint(c.Code, "|", plainly(c.Message), "|", c.Hold, "|", c.ReconnectAfter, "|", c.Status, "|", c.Bare)
}

func oldReason(c *Closing) string {
	if c == nil {
		return ""
	}
	return fmt.Sprint(c.Code, "|", plainly(c.Message), "|", c.Hold, "|", c.ReconnectAfter, "|", c.status, "|", c.bare)
}

// batch is what is for the agent.
type batch struct {
	messages       []string
	ping, answered bool
	pong           string
	ending         string
}

// output empties both and compares what they have for their agent.
func (b *both) output() {
	want, got := b.oldOutput(), b.freshOutput()
	if !reflect.DeepEqual(got, want) {
		b.t.Errorf("output: got %.2000v\nwant %.2000v", got, want)
	}
}

func (b *both) oldOutput() (all batch) {
	var o outbox
	for {
		b.old.next(&o)
		all.add(o.ping, o.answered, o.pongDue, o.pong)
		for _, f := range o.frames {
			head, body, tail, err := f.parts(nil)
			all.message(b, slices.Concat(head, body, []byte(tail)), err)
		}
		if o.closing != nil {
			all.ending = fmt.Sprint(o.status, o.hold, oldReason(o.closing))
			return all
		}
		if len(o.frames) == 0 && !o.more {
			return all
		}
	}
}

func (b *both) freshOutput() (all batch) {
	var o next.Outbox
	for {
		b.fresh.Next(&o)
		all.add(o.Ping, o.Answered, o.PongDue, o.Pong)
		silent := o.Closing != nil && b.speak.Ending(o.Closing).Silent
		for i := range o.Messages {
			if silent {
				break
			}
			head, body, tail, err := b.speak.Append(nil, &o.Messages[i])
			all.message(b, slices.Concat(head, body, []byte(tail)), err)
		}
		if o.Closing != nil {
			e := b.speak.Ending(o.Closing)
			all.ending = fmt.Sprint(e.Status, e.Hold, reasonOf(o.Closing))
			return all
		}
		if len(o.Messages) == 0 && !o.More {
			return all
		}
	}
}

func (a *batch) add(ping, answered, pongDue bool, pong []byte) {
	a.ping, a.answered = a.ping || ping, a.answered || answered
	if pongDue {
		a.pong += fmt.Sprintf("%q", pong)
	}
}

// message keeps a message; one of v2 in an order of its own, because a map has none.
func (a *batch) message(b *both, msg []byte, err error) {
	if err != nil {
		a.messages = append(a.messages, "not encoded")
		return
	}
	f := &agentv2.Frame{}
	if b.strict && proto.Unmarshal(msg, f) == nil && f.GetRegisterAck() != nil {
		msg, _ = proto.MarshalOptions{Deterministic: true}.Marshal(f)
	}
	a.messages = append(a.messages, plainly(string(msg)))
}

// plainly is a text without the name of a Go type, which the old session's on a
// registration that cannot be read has.
func plainly(text string) string { return strings.ReplaceAll(text, "v1Models.", "") }

// compare looks at everything that can be seen from outside.
func (b *both) compare() {
	b.t.Helper()
	b.same("state", b.fresh.State(), b.oldState())
	b.same("streams", b.fresh.Streams(), b.old.Streams())
	b.same("identity", b.fresh.Identity(), next.Identity(b.old.Identity()))
	b.same("receipt key", b.fresh.ReceiptKey(), b.old.ReceiptKey())
	b.same("receipts", b.freshly.n, b.oldPile.n)
	b.same("view", b.view(), b.oldView())
	c, o := b.env.Counts, b.house.counts
	b.same("counts", []int64{
		c.Slots.Load(), c.FramesOut.Load(), c.Held.Load(), c.Strays.Load(), c.ReceiptsDropped.Load(),
	}, []int64{o.Slots.Load(), o.FramesOut.Load(), o.Held.Load(), o.Strays.Load(), o.ReceiptsDropped.Load()})
	// Deviation 4: a chunk that is null has no bytes.
	if d := o.BytesIn.Load() - c.BytesIn.Load(); d < 0 || d%4 != 0 || b.strict && d != 0 {
		b.t.Errorf("bytes in: got %d, want %d", c.BytesIn.Load(), o.BytesIn.Load())
	}
	b.oldDesk.mu.Lock()
	defer b.oldDesk.mu.Unlock()
	h := b.desk.Heard()
	b.same("calls", []any{h.Touched, len(h.Joined), h.Left, fmt.Sprint(h.Warmed)}, []any{
		b.oldDesk.touched, len(b.oldDesk.joined), b.oldDesk.left, fmt.Sprint(b.oldDesk.warmed),
	})
	if !b.draining { // then it is by chance whether a look-up is still made that nobody waits for
		b.same("look-ups", fmt.Sprint(h.Epoch, h.Shown), fmt.Sprint(b.oldDesk.epoch, b.oldDesk.shown))
	}
}

func (b *both) oldState() next.State {
	s := b.old
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.phase == phaseNew:
		return next.Connected
	case s.phase == phaseAdmitting && s.draining && b.fresh.State() == next.Held:
		return next.Held
	case s.phase == phaseAdmitting:
		return next.Admitting
	case s.phase == phaseClosing:
		return next.Closing
	case s.phase == phaseEnded:
		return next.Ended
	case s.leaving != nil:
		return next.Finishing
	case s.draining:
		return next.Draining
	default:
		return next.Live
	}
}

func (b *both) view() string {
	v, ok := b.fresh.View()
	cuts := next.Cuts(v.Offers)
	if v.Told = false; !ok {
		v.Draining = false
	}
	text, err := json.Marshal(v)
	return fmt.Sprint(ok, string(bytes.Replace(text, []byte(`"Told":false,`), nil, 1)), err, cuts)
}

func (b *both) oldView() string {
	v, ok := b.old.View()
	if !ok {
		v.Draining = false // nobody asks
	}
	text, err := json.Marshal(v)
	return fmt.Sprint(ok, string(text), err, Cuts(v.Offers))
}

// name is the request that a message of v1 is about.
func (b *both) name(c byte) string {
	return []string{"r-1", "r-2", "r-3", "r-4", "r-1", "r-2", "r-99", "none", "warmup-1", "warmup-2", "", "r-5"}[c%12]
}

// texts are what agents of v1 say.
func (b *both) texts(id string) []string {
	hardware := `"hardware":{"gpu_type":"RTX 4090","gpu_model":"x\u001b","vram_gb":23,"gpu_count":2,` +
		`"compute_capability":"8.9\n\n9.0","driver_version":"550","cuda_version":"12","serving_engine":"vllm"}`
	return append([]string{
		chunk(id, `{"choices":[]}`, false), chunk(id, `{"choices":[]}`, false), chunk(id, "{\"a\":\n1}", false),
		chunk(id, "null", true), chunk(id, "{}", true), chunk(id, "null", false),
		chunk(id, `"`+strings.Repeat("x", 40<<10)+`"`, false), chunk(id, `"`+strings.Repeat("x", 150<<10)+`"`, false),
		streamEnd(id, ""), streamEnd(id, ""), streamEnd(id, `,"status_code":502,"error":"failed"`), streamEnd(id, `,"error":""`),
		answer(id, `,"response":{"id":"c0"},"latency_ms":1`), answer(id, `,"response":"`+strings.Repeat("y", 50<<10)+`"`),
		answer(id, `,"response":null,"error":"model server returned HTTP 404: no","status_code":404`),
		answer(id, `,"error":"provider rate limit exceeded, wait","status_code":429`),
		answer(id, `,"success":true,"load_time_ms":1500`), answer(id, `,"success":"yes","load_time_ms":"soon","error":"no\nroom"`),
		`{"type":"error","request_id":"` + id + `","payload":{"code":501,"message":"not supported"}}`,
		`{"type":"error","request_id":"` + id + `","payload":7}`,
		`{"type":"heartbeat","request_id":"h","payload":{}}`,
		`{"type":"heartbeat","request_id":"h","payload":{"models":["m"],"metrics":{"active_requests":3,"gpu_0_memory_total_mb":24564}}}`,
		`{"type":"heartbeat","payload":{"models":["n","m","m","bad id"],"model_hashes":[{"model_id":"n","format":"gguf",` +
			`"quantization":"q4","context_length":2000000000}],"model_health":{"m":"unhealthy"}}}`,
		`{"type":"heartbeat","payload":{"model_hashes":[{"model_id":"m","format":"fp16","quantization":"none"},{"model_id":"x"}]}}`,
		`{"type":"heartbeat","request_id":7,"payload":{"models":[],` + hardware + `}}`,
		`{"type":"model_health_update","payload":{"models":["x"],"model_health":{"m":"unhealthy","z":"healthy"}}}`,
		`{"type":"model_health_update","payload":{"model_health":{"m":"healthy"}}}`,
		strings.ReplaceAll(registerText("good", "node-0001", "m", "z"), "r-1", "again"),
		strings.Replace(registerText("good", "node-0001", "m"), `"capabilities"`, hardware+`,"capabilities"`, 1),
		`{"type":"verify","payload":{}}`, `{"type":"word"}`, `{}`, `{"type":"ack","request_id":null,"payload":null}`,
		`{"type":"stream_chunk","request_id":7,"payload":{"chunk":{}}}`, `{"request_id":"` + id + `"}`,
	}, b.heard()...)
}

// nastyTexts end most connections; the last of 256 is a good registration.
func (b *both) nastyTexts() []string {
	hardware := `"hardware":{"gpu_type":"RTX 4090","gpu_count":2,"compute_capability":"8.9\n\n9.0"}`
	all := []string{
		registerText("bad", "node-0001"), registerText("malformed", "node-0001"), registerText("good", ""),
		registerText("good", strings.Repeat("n", 130), "m"), registerText("", "node-0001"),
		strings.Replace(registerText("good", "node-0001", "m"), `"capabilities"`, hardware+`,"capabilities"`, 1),
		strings.Replace(registerText("good", "node-0001", "m"), `"capabilities"`,
			`"owner_addr":"0xabc","signature":"0x0102","auth_nonce":"n","capabilities"`, 1),
		`{"type":"register","request_id":"q","payload":{"node_id":"node-0001","token":"good","models":"m"}}`,
		`{"type":"register","request_id":"q"}`,
		`{"type":"heartbeat","payload":{"models":[` + strings.Repeat(`"m",`, 256) + `"m"]}}`,
		registerText("good", "node-0001", slices.Repeat([]string{"m"}, 257)...),
		`{"type":"heartbeat","payload":[]}`, `{"type":"heartbeat"}`,
		`[]`, `{`, ``,
	}
	all = slices.Insert(all, 255%(len(all)+1), registerText("good", "node-0001", "m", "n"))
	return all
}

// textsOf are the texts on each request, which are long to make.
var textsOf sync.Map

func (b *both) cachedTexts(id string) []string {
	if list, ok := textsOf.Load(id); ok {
		return list.([]string)
	}
	list := b.texts(id)
	textsOf.Store(id, list)
	return list
}

var heardOnce struct {
	sync.Once
	all []string
}

// heard are the captured frames.
func (b *both) heard() []string {
	heardOnce.Do(func() {
		for _, c := range capturedFrames(b.t, "agent->hub") {
			heardOnce.all = append(heardOnce.all, string(bytes.ReplaceAll(c.Frame, []byte("req-"), []byte("r-"))))
		}
	})
	return heardOnce.all
}

// frame is what agents of v2 say: in its place and with its number, but for a few.
func (b *both) frame(template int, target byte) []byte {
	all := b.frames(target)
	if template >= nasty {
		all = b.nastyFrames(target)
	}
	f := all[template%len(all)]
	var stream uint32
	switch {
	case template >= nasty && target&0x60 == 0x60: // anywhere
		stream = uint32(target % 8)
	case f.GetData() == nil && f.GetEnd() == nil && (target&1 == 0 || f.GetWindow() == nil && f.GetError() == nil && f.Body != nil):
	case len(b.streams) == 0:
		stream = 1
	default:
		stream = b.streams[int(target>>1)%len(b.streams)].id
	}
	if template < nasty && stream != 0 && b.old.streams[stream] == nil && f.GetWindow() == nil {
		f, stream = &agentv2.Frame{}, 0 // most agents do not speak of what has ended
	}
	f.Stream = stream
	b.seq[stream]++
	f.Seq = b.seq[stream]
	if template >= nasty && target&0x1f == 0x1f {
		f.Seq++
	}
	msg := encode(b.t, f)
	switch target & 0x0f {
	case 6:
		msg = append(msg, 0xfa, 0x06, 3, 1, 2, 3) // field 111
	case 7:
		if template >= nasty {
			msg = append(msg, msg...)
		}
	}
	return msg
}

func (b *both) frames(target byte) []*agentv2.Frame {
	grant := func(bytes uint32) *agentv2.Frame {
		return &agentv2.Frame{Body: &agentv2.Frame_Window{Window: &agentv2.Window{Bytes: bytes}}}
	}
	piece := func(n int) *agentv2.Frame {
		return &agentv2.Frame{Body: &agentv2.Frame_Data{Data: &agentv2.Data{Data: bytes.Repeat([]byte{'x'}, n)}}}
	}
	end := func(e *agentv2.End) *agentv2.Frame { return &agentv2.Frame{Body: &agentv2.Frame_End{End: e}} }
	beat := func(h *agentv2.Heartbeat) *agentv2.Frame {
		return &agentv2.Frame{Body: &agentv2.Frame_Heartbeat{Heartbeat: h}}
	}
	warmed := func(r *agentv2.WarmupResult) *agentv2.Frame {
		return &agentv2.Frame{Body: &agentv2.Frame_WarmupResult{WarmupResult: r}}
	}
	m, n := &agentv2.ModelOffer{ModelId: "m", Healthy: true}, &agentv2.ModelOffer{
		ModelId: "n", ContextLength: 1 << 40, Capacity: 2, Quantization: "q\n4", EngineModel: "local",
	}
	receipts := make([]*agentv2.Receipt, int(target))
	for i := range receipts {
		receipts[i] = &agentv2.Receipt{RequestId: make([]byte, 16), Attempt: uint32(i)}
	}
	return []*agentv2.Frame{
		piece(100), piece(100), piece(16 << 10), piece(16 << 10), piece(16 << 10), piece(0),
		end(&agentv2.End{EngineStatus: 200, Complete: true}),
		end(&agentv2.End{EngineStatus: 4000, Error: "no\nroom", Busy: true}),
		grant(0), grant(1), grant(64 << 10), grant(64 << 10), {},
		beat(&agentv2.Heartbeat{}), beat(&agentv2.Heartbeat{ActiveRequests: 3, QueuedRequests: -4}),
		beat(&agentv2.Heartbeat{Models: []*agentv2.ModelOffer{m}}), beat(&agentv2.Heartbeat{Models: []*agentv2.ModelOffer{n, m}}),
		beat(&agentv2.Heartbeat{Models: []*agentv2.ModelOffer{{ModelId: "bad id"}, m}}),
		warmed(&agentv2.WarmupResult{ModelId: "m", Success: true, LoadTimeMs: 1 << 50}),
		warmed(&agentv2.WarmupResult{ModelId: "n", Error: "no\nroom", NotTried: true, LoadTimeMs: -1}),
		{Body: &agentv2.Frame_Receipts{Receipts: &agentv2.Receipts{Receipts: receipts[:min(len(receipts), 160)]}}},
	}
}

// nastyFrames end most connections; the last of 256 is a registration.
func (b *both) nastyFrames(target byte) []*agentv2.Frame {
	piece := &agentv2.Data{Data: make([]byte, 16<<10+1)}
	return []*agentv2.Frame{
		{Body: &agentv2.Frame_Drain{Drain: &agentv2.Drain{}}},
		{Body: &agentv2.Frame_Data{Data: piece}},
		{Body: &agentv2.Frame_Window{Window: &agentv2.Window{Bytes: 1 << 31}}},
		{Body: &agentv2.Frame_Error{Error: &agentv2.Error{Code: "x"}}},
		{Body: &agentv2.Frame_Heartbeat{Heartbeat: &agentv2.Heartbeat{Models: make([]*agentv2.ModelOffer, 257)}}},
		{Body: &agentv2.Frame_Receipts{Receipts: &agentv2.Receipts{Receipts: make([]*agentv2.Receipt, 161)}}},
		{Body: &agentv2.Frame_Cancel{Cancel: &agentv2.Cancel{}}},
		b.registration(target), // 255
	}
}

// registration is a good one for a target that is 0.
func (b *both) registration(target byte) *agentv2.Frame {
	r := &agentv2.Register{Token: "good", NodeId: "node-0001", Models: []*agentv2.ModelOffer{
		{ModelId: "m", Healthy: true}, {ModelId: "n", Healthy: true, Capacity: 2, ContextLength: 1 << 40},
	}, Capabilities: []string{"warmup", "<b>"}, ReceiptKey: make([]byte, 32)}
	switch target % 12 {
	case 1:
		r.Token = "bad"
	case 2:
		r.NodeId = "no"
	case 3:
		r.Models = make([]*agentv2.ModelOffer, 257)
	case 4:
		r.Capabilities = make([]string, 33)
	case 5:
		r.ReceiptKey = []byte{1}
	case 6:
		r.ReceiptKey, r.Capabilities = nil, nil
		r.Models = append(r.Models, &agentv2.ModelOffer{ModelId: "bad id"}, &agentv2.ModelOffer{ModelId: "m"})
	case 7:
		r.Hardware = &agentv2.Hardware{GpuType: "x\n", GpuCount: -1, MemoryTotalMb: 1 << 40, ComputeCapability: "8.9\n\n9"}
		r.MaxRequestBytes, r.NodeName, r.Region, r.AgentVersion = 1<<40, "a\x1b", strings.Repeat("r", 99), "1"
	case 8:
		r.Token, r.OwnerAddress, r.Signature, r.AuthNonce = "", "0xabc", []byte{1}, "n"
	}
	return &agentv2.Frame{Body: &agentv2.Frame_Register{Register: r}}
}

func FuzzBothSessionsAgreeV1(f *testing.F) { bothAgree(f, false) }

func FuzzBothSessionsAgreeV2(f *testing.F) { bothAgree(f, true) }

// directed are scripts that come to what chance seldom comes to.
func directed(strict bool) [][]byte {
	const message, flood, open, take, shut, warmUp, sleep, output, rarely = 0, 15, 16, 18, 20, 23, 26, 28, 31
	full := []byte{0}
	for range 10 {
		full = append(full, open, 4)
	}
	full = append(full, output)
	if strict {
		return [][]byte{
			// Beyond the credit of a stream, twice.
			{1, flood, 2, 0, 6, output, flood, 2, 0, 2, take, 0, 0, flood, 2, 2, 6, output},
			// Beyond what the provider may hold, and beyond the connection's credit.
			{1, flood, 2, 0, 4, flood, 2, 2, 4, flood, 2, 4, 4, output, take, 0, 0, take, 1, 1, flood, 2, 6, 4, output},
			// Credit for a body, and what is granted again.
			{0, output, flood, 11, 6, 9, output, flood, 2, 0, 9, take, 0, 0, output, flood, 2, 0, 9, take, 0, 1, output},
			// A full model that has a slot again.
			append(slices.Clone(full), message, 6, 0, message, 6, 2, sleep, 1, message, 6, 4, output),
			// A warm-up and its answer; a stream that outlives its request.
			{0, warmUp, 0, 0, output, message, 18, 0, warmUp, 0, 1, shut, 0, 1, sleep, 2, sleep, 1, output, sleep, 2, output},
			// Receipts: more than are taken in a second; acknowledged; forged.
			{0, flood, 20, 160, 40, rarely, 2, 200, output, rarely, 1, rarely, 1, output},
		}
	}
	late := []byte{0, shut, 0, 0}
	for range 11 {
		late = append(late, sleep, 3, message, 20, 0)
	}
	return [][]byte{
		// Beyond what a session and its streams may hold.
		{1, message, 7, 0, message, 7, 1, take, 0, 0, take, 1, 0, flood, 6, 2, 9, take, 2, 0, output},
		// A consumer that takes nothing.
		{0, flood, 0, 0, 127, flood, 0, 0, 127, flood, 0, 0, 5, sleep, 1, flood, 0, 0, 2, take, 0, 0, flood, 7, 1, 9, take, 1, 0},
		// A request that lost its slot before it had ended.
		append(late, output, flood, 0, 0, 50, message, 8, 0, flood, 0, 0, 120, output),
		// A full model that has a slot again, and an answer that is complete.
		append(slices.Clone(full), message, 8, 0, message, 4, 1, message, 8, 1, sleep, 1, message, 8, 2, output, take, 1, 0),
		// A warm-up and its answer, twice.
		{0, warmUp, 0, 0, output, message, 16, 8, message, 16, 8, warmUp, 0, 1, output},
		// Messages that there was no room for: of a request, and of nobody.
		{0, rarely, 3, 0, 89, rarely, 3, 6, 89, rarely, 3, 0, 10, take, 0, 0, flood, 0, 6, 127, sleep, 5},
		{8, rarely, 3, 0, 89, output},
	}
}

func bothAgree(f *testing.F, strict bool) {
	for _, script := range directed(strict) {
		f.Add(script)
	}
	for variant := range byte(16) {
		random := rand.New(rand.NewPCG(uint64(variant), 1))
		script := []byte{variant}
		for range 300 {
			script = append(script, byte(random.Uint32()))
		}
		f.Add(script)
	}
	f.Fuzz(func(t *testing.T, script []byte) {
		synctest.Test(t, func(t *testing.T) { agree(t, strict, script[:min(len(script), 2000)]) })
	})
}
