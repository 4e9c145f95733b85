package connection

import (
	"svc.internal/pkg/agentwire/frame"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/openai"
	"svc.internal/pkg/workreceipt"
	agentv2 "svc.internal/proto/svc/agent/v2"
)

const (
	// receiptsPerFrame keeps a frame below 64 KiB, and receiptsInterval keeps the rate of
	// frames below what a hub takes.
	receiptsPerFrame = 128
	// receiptPatience is how many batches of answers may be sent before a frame of
	// receipts that waits.
	receiptPatience = 64
	// maxWhole bounds the answers that are not streamed and are counted. A longer answer
	// has no receipt.
	maxWhole = 1 << 20
)

// counter counts the content of an answer as it is sent, in the way of hubs.
type counter struct {
	stream bool
	sse    openai.SSEReader
	tally  openai.Tally
	whole  []byte
	broken bool
	usage  openai.Usage
}

func (c *counter) add(piece []byte) {
	switch {
	case c.broken:
	case c.stream:
		c.sse.Feed(piece)
		c.events()
	case len(c.whole)+len(piece) > maxWhole:
		c.whole, c.broken = nil, true
	default:
		c.whole = append(c.whole, piece...)
	}
}

func (c *counter) events() {
	for {
		event, ok := c.sse.Next()
		if !ok {
			break
		}
		c.event(event)
	}
	c.broken = c.broken || c.sse.Err() != nil
}

func (c *counter) event(event openai.Event) {
	if event.Done || c.broken {
		return
	}
	if _, err := c.tally.Scan(event.Data); err != nil {
		c.broken = true
	}
}

// end counts what is known only at the end. An answer that is not streamed counts when it
// is whole, because hubs relay no other.
func (c *counter) end(complete bool) {
	switch {
	case c.broken:
	case c.stream:
		if event, ok := c.sse.End(); ok && complete {
			c.event(event)
		}
		c.usage = c.tally.Usage
	case complete:
		if chunk, err := openai.ScanCompletion(c.whole); err == nil {
			c.tally.Tokens, c.tally.ContentBytes, c.usage = chunk.Tokens, chunk.ContentBytes, chunk.Usage
		}
	}
	c.whole = nil
}

// mark is how much content the first bytes of an answer have.
type mark struct{ end, tokens, bytes int64 }

// note notes the count up to the end of the accepted bytes.
func (st *stream) note() {
	s := st.session
	s.mu.Lock()
	defer s.mu.Unlock()
	m := mark{end: st.acceptedTotal, tokens: int64(st.count.tally.Tokens), bytes: st.count.tally.ContentBytes}
	// Only the last mark that was sent is needed.
	passed := 0
	for passed+1 < len(st.marks) && st.marks[passed+1].end <= st.sentTotal {
		passed++
	}
	st.marks = append(st.marks[:copy(st.marks, st.marks[passed:])], m)
}

// sentMarkLocked is the count of the sent bytes.
func (st *stream) sentMarkLocked() (sent mark) {
	for _, m := range st.marks {
		if m.end <= st.sentTotal {
			sent = m
		}
	}
	return sent
}

// receiptLocked makes the receipt of a request that has ended, if content of its answer
// was sent.
func (s *session) receiptLocked(st *stream, complete bool) {
	if !st.counted || st.receipted {
		return
	}
	st.receipted = true
	sent := st.sentMarkLocked()
	request, err := ids.ParseRequest(st.request.ID)
	if err != nil || sent.tokens <= 0 || sent.bytes <= 0 || s.ack == nil {
		return
	}
	provider, err := ids.ParseProvider(s.ack.GetProviderId())
	if err != nil {
		return
	}
	r := workreceipt.Receipt{
		Request: request, Attempt: st.attempt, Provider: provider, Epoch: s.ack.GetEpoch(), Model: st.request.ModelID,
		SentTokens: sent.tokens, SentBytes: sent.bytes, Complete: complete, EndedAt: s.clock.Now(), Proof: st.proof,
	}
	if u := st.claim; u.State == openai.UsageValid {
		r.Claimed, r.ClaimedPrompt, r.ClaimedCompletion = true, u.PromptTokens, u.CompletionTokens
	}
	s.receipts.Add(r)
	if s.worked != nil {
		s.worked(r)
	}
}

// claims queues the receipts that are due, unless earlier ones still wait or a successor
// sends them.
func (s *session) claims() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.state.registered() || s.state.ends() || len(s.due) > 0 {
		return
	}
	if s.due = s.receipts.Due(receiptsPerFrame); len(s.due) > 0 {
		s.signal()
	}
}

// claimLocked sends the receipts that wait, behind all answers.
func (s *session) claimLocked(b *batch) error {
	if len(s.due) == 0 || !s.state.registered() {
		return nil
	}
	if len(s.ring) > 0 && s.passed < receiptPatience {
		s.passed++
		return nil
	}
	s.passed = 0
	message := &agentv2.Receipts{Receipts: make([]*agentv2.Receipt, 0, len(s.due))}
	for _, signed := range s.due {
		message.Receipts = append(message.Receipts, frame.Receipt(signed))
	}
	s.due = nil
	return b.frame(&agentv2.Frame{Seq: s.seqOut.Next(), Body: &agentv2.Frame_Receipts{Receipts: message}})
}

// onReceiptAckLocked forgets receipts.
func (s *session) onReceiptAckLocked(a *agentv2.ReceiptAck) {
	if s.receipts == nil {
		return
	}
	for _, r := range a.GetReceipts() {
		if len(r.GetRequestId()) == len(ids.RequestID{}) {
			s.receipts.Acked(workreceipt.Key{Request: ids.RequestID(r.GetRequestId()), Attempt: r.GetAttempt()},
				cut(clean(r.GetRefused()), 64))
		}
	}
}
