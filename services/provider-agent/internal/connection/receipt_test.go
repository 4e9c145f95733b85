package connection

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"svc.internal/pkg/agentwire"
	"svc.internal/pkg/agentwire/frame"
	"svc.internal/pkg/clock"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/workreceipt"
	agentv2 "svc.internal/proto/svc/agent/v2"
	"svc.internal/services/provider-agent/internal/connection/hubtest"
	"svc.internal/services/provider-agent/internal/workreceipts"
)

// chunk is one event with a word of content.
const chunk = `data: {"choices":[{"index":0,"delta":{"content":"word "}}]}` + "\n\n"

const streamEnd = `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n" +
	`data: {"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":3,"total_tokens":8}}` + "\n\n" + "data: [DONE]\n\n"

// streamed answers with n chunks and a proper end.
func streamed(n int) Serve {
	return func(_ context.Context, _ Request, w io.Writer) Answer {
		for range n {
			if _, err := io.WriteString(w, chunk); err != nil {
				return Answer{Status: 200, Err: err}
			}
		}
		_, err := io.WriteString(w, streamEnd)
		return Answer{Status: 200, Err: err}
	}
}

// keep is a store of receipts, in a folder unless that is empty, that runs as
// long as the test.
func keep(t *testing.T, dir string) *workreceipts.Store {
	t.Helper()
	s, err := workreceipts.Open(dir, rand.Reader, clock.System, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-done
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// proven asks with a proof, as hubs that take receipts do.
func proven(s *hubtest.Session, n int, text string) *hubtest.Stream {
	open := hubtest.OpenOf("m", []byte(text))
	open.RequestId, open.Proof = requestID(n).String(), []byte("proof")
	st := s.OpenOnly(open)
	st.SendBody([]byte(text))
	return st
}

func requestID(n int) ids.RequestID {
	return ids.RequestID{0x01, 0x90, 0xa0, 0, 0, 0, 0x70, 0, 0x80, 15: byte(n)}
}

const streamText = `{"model":"m","stream":true}`

// claims waits for a frame of receipts.
func claims(s *hubtest.Session) []*agentv2.Receipt {
	f := s.ControlOf(func(f *agentv2.Frame) bool { return f.GetReceipts() != nil })
	return f.GetReceipts().GetReceipts()
}

func acknowledge(s *hubtest.Session, all []*agentv2.Receipt) {
	ack := &agentv2.ReceiptAck{}
	for _, r := range all {
		ack.Receipts = append(ack.Receipts, &agentv2.AckedReceipt{RequestId: r.GetRequestId(), Attempt: r.GetAttempt()})
	}
	s.Send(&agentv2.Frame{Body: &agentv2.Frame_ReceiptAck{ReceiptAck: ack}})
}

func TestAServedRequestIsClaimedUntilItIsAcknowledged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := keep(t, t.TempDir())
		b := setup(t, streamed(3), options{piped: true, receipts: store})
		s := b.hub.AcceptLive()
		if !bytes.Equal(s.Register.GetReceiptKey(), store.PublicKey()) {
			t.Error("the key is not registered")
		}
		if _, end := proven(s, 1, streamText).Answer(); !end.GetComplete() {
			t.Fatal(end)
		}
		first := claims(s)
		signed, err := frame.ReadReceipt(first[0])
		if err != nil {
			t.Fatalf("got the error %v, want none", err)
		}
		if got := signed.Verify(store.PublicKey()); got != nil {
			t.Fatalf("signed.Verify(store.PublicKey()): got the error %v, want none", got)
		}
		switch r := signed.Receipt; {
		case len(first) != 1:
			t.Errorf("len(first): got %d, want 1", len(first))
		case r.Request != requestID(1):
			t.Errorf("r.Request: got %v, want %v", r.Request, requestID(1))
		case r.Attempt != 1:
			t.Errorf("r.Attempt: got %d, want 1", r.Attempt)
		case r.SentTokens != 3:
			t.Errorf("r.SentTokens: got %d, want 3", r.SentTokens)
		case r.SentBytes != 15:
			t.Errorf("r.SentBytes: got %d, want 15", r.SentBytes)
		case !r.Complete:
			t.Error("r.Complete: got false, want true")
		case !r.Claimed:
			t.Error("r.Claimed: got false, want true")
		case r.ClaimedPrompt != 5:
			t.Errorf("r.ClaimedPrompt: got %d, want 5", r.ClaimedPrompt)
		case r.ClaimedCompletion != 3:
			t.Errorf("r.ClaimedCompletion: got %d, want 3", r.ClaimedCompletion)
		case string(r.Proof) != "proof":
			t.Errorf(`r.Proof: got %q, want "proof"`, string(r.Proof))
		case r.Model != "m":
			t.Errorf(`r.Model: got %q, want "m"`, r.Model)
		}
		s.Kill()
		s = b.hub.AcceptLive()
		if again := claims(s); len(again) != 1 {
			t.Errorf("a new connection hears: len(again): got %d, want 1, in %v", len(again), again)
		} else if !bytes.Equal(again[0].GetSignature(), first[0].GetSignature()) {
			t.Errorf("a new connection hears: again[0].GetSignature(): got %q, want %q", again[0].GetSignature(),
				first[0].GetSignature())
		}
		acknowledge(s, first)
		synctest.Wait()
		if kept := store.Status().Kept; kept != 0 {
			t.Errorf("kept: got %d, want 0", kept)
		}
	})
}

// left is a folder with what an agent that died leaves in its own, without the
// lock, which dies with the process.
func left(t *testing.T, dir string) string {
	t.Helper()
	to := t.TempDir()
	for _, name := range []string{"receipt-key", "receipts"} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(to, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return to
}

func TestAReceiptThatWasNeverSentIsSentAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		store := keep(t, dir)
		b := setup(t, streamed(3), options{piped: true, receipts: store})
		if _, end := proven(b.hub.AcceptLive(), 1, streamText).Answer(); !end.GetComplete() {
			t.Fatal(end)
		}
		synctest.Wait() // END is out; the receipt waits, and the agent dies
		if n := store.Status().Kept; n != 1 {
			t.Fatalf("receipts kept: got %d, want 1", n)
		}
		reborn := setup(t, streamed(3), options{piped: true, receipts: keep(t, left(t, dir))})
		if got := claims(reborn.hub.AcceptLive()); len(got) != 1 {
			t.Errorf("after a restart: len(got): got %d, want 1, in %v", len(got), got)
		} else if got[0].GetSentTokens() != 3 {
			t.Errorf("after a restart: got[0].GetSentTokens(): got %d, want 3", got[0].GetSentTokens())
		}
	})
}

func TestOnlyWhatWasSentIsClaimed(t *testing.T) {
	whole := `{"choices":[{"index":0,"message":{"content":"one two three"},"finish_reason":"stop"}]}`
	for name, tc := range map[string]struct {
		serve    Serve
		text     string
		hold     bool // grant no credit
		kill     bool
		least    int64
		limit    int64
		complete bool
	}{
		"a whole answer":      {serve: written(whole, nil), text: `{"model":"m"}`, least: 1, limit: 13, complete: true},
		"a whole one cut off": {serve: written(whole, errLost), text: `{"model":"m"}`},
		"a stream cut off":    {serve: written(chunk+chunk, errLost), text: streamText, least: 2, limit: 2},
		"an error":            {serve: written(`{"error":{"message":"no"}}`, nil), text: streamText},
		"nothing":             {serve: written("", nil), text: streamText},
		"garbage":             {serve: written("data: {\n\n", nil), text: streamText},
		// 256 KiB of credit hold some 4,000 chunks of 62 bytes.
		"a stream without credit": {serve: streamed(10_000), text: streamText, hold: true, kill: true, least: 4000,
			limit: agentwire.StreamWindow / int64(len(chunk))},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := setup(t, tc.serve, options{piped: true, receipts: keep(t, "")})
				s := b.hub.AcceptLive()
				if tc.hold {
					s.HoldCredit()
				}
				st := proven(s, 1, tc.text)
				if tc.kill {
					synctest.Wait()
					s.Kill()
					s = b.hub.AcceptLive()
				} else {
					st.Answer()
				}
				// One that is sure to be claimed tells that the other is not.
				if tc.limit == 0 {
					if n := b.link.deps.Receipts.Status().Kept; n != 0 {
						t.Errorf("receipts: got %d, want 0", n)
					}
					return
				}
				got := claims(s)[0]
				if n := got.GetSentTokens(); n < tc.least || n > tc.limit {
					t.Errorf("got.GetSentTokens(): got %d, want %d to %d", n, tc.least, tc.limit)
				} else if got.GetComplete() != tc.complete {
					t.Errorf("claimed: got.GetComplete(): got %t, want %t", got.GetComplete(), tc.complete)
				}
			})
		})
	}
}

func written(text string, err error) Serve {
	return func(_ context.Context, _ Request, w io.Writer) Answer {
		if _, werr := io.WriteString(w, text); werr != nil {
			return Answer{Status: 200, Err: werr}
		}
		return Answer{Status: 200, Err: err}
	}
}

func TestWithoutAProofThereIsNoReceipt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := keep(t, "")
		b := setup(t, streamed(3), options{piped: true, receipts: store})
		b.hub.AcceptLive().Open("m", streamText).Answer()
		synctest.Wait()
		if n := store.Status().Kept; n != 0 {
			t.Errorf("receipts for a hub that takes none: got %d, want 0", n)
		}
	})
}

func TestReceiptsArePacedAndOldestFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := keep(t, "")
		for n := range 300 {
			store.Add(workreceipt.Receipt{
				Request: ids.RequestID{1, 14: byte(n >> 8), 15: byte(n)}, Attempt: 1, Provider: ids.ProviderID{1}, Model: "m",
				SentTokens: 1, SentBytes: 1, EndedAt: time.Now(), Proof: []byte("p"),
			})
		}
		b := setup(t, streamed(1), options{piped: true, receipts: store})
		s := b.hub.AcceptLive()
		seen, last := 0, time.Time{}
		for seen < 300 {
			list := claims(s)
			if now := time.Now(); len(list) > receiptsPerFrame {
				t.Fatalf("%d receipts %v after the last: len(list): got %d, want at most %d", len(list), now.Sub(last), len(list),
					receiptsPerFrame)
			} else if now.Sub(last) < receiptsInterval {
				t.Fatalf("%d receipts %v after the last: now.Sub(last): got %v, want at least %v", len(list), now.Sub(last),
					now.Sub(last), receiptsInterval)
			}
			last = time.Now()
			for _, r := range list {
				if id := fmt.Sprintf("%x", r.GetRequestId()[14:]); id != fmt.Sprintf("%04x", seen) {
					t.Fatalf("receipt %s in place %d: got %q, want %q", id, seen, id, fmt.Sprintf("%04x", seen))
				}
				seen++
			}
		}
	})
}
