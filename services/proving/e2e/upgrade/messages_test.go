package upgrade

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	eventsv1 "svc.internal/proto/svc/events/v1"
)

// eventOf is an empty message of the type that travels on a subject.
func eventOf(t *testing.T, subject string) proto.Message {
	t.Helper()
	switch kindOf(subject) {
	case "usage.v1":
		return &eventsv1.UsageEvent{}
	case "receipt.v1":
		return &eventsv1.WorkReceiptEvent{}
	case "void.v1":
		return &eventsv1.VoidEvent{}
	case "attempts.v1":
		return &eventsv1.AttemptBatch{}
	case "presence.v1":
		return &eventsv1.Presence{}
	default:
		t.Fatalf("nobody knows what travels on %s", subject)
		return nil
	}
}

func kindOf(subject string) string { return subject[:strings.LastIndexByte(subject, '.')] }

func TestMessagesAreEncodedAgainToTheSameBytes(t *testing.T) {
	for i, m := range readMessages(t, "nats.jsonl.gz") {
		event := eventOf(t, m.Subject)
		// A field that the type does not have is lost, which shows in the bytes.
		if err := (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(m.Data, event); err != nil {
			t.Errorf("message %d on %s: %v", i+1, m.Subject, err)
			continue
		}
		again, err := proto.MarshalOptions{Deterministic: true}.Marshal(event)
		if err != nil {
			t.Errorf("message %d on %s: %v", i+1, m.Subject, err)
		}
		if !bytes.Equal(again, m.Data) {
			t.Errorf("message %d on %s: got %x, want %x", i+1, m.Subject, again, m.Data)
		}
	}
}

// told is the content of the messages of a kind together.
type told struct {
	Messages int    `json:"messages"`
	Digest   string `json:"digest"`
}

func TestMessagesSayTheSame(t *testing.T) {
	want := read[struct {
		Messages map[string]told `json:"messages"`
	}](t, "want.json").Messages
	got := map[string]told{}
	hashes := map[string]io.Writer{}
	sums := map[string]func() string{}
	for i, m := range readMessages(t, "nats.jsonl.gz") {
		kind := kindOf(m.Subject)
		if hashes[kind] == nil {
			hash := sha256.New()
			hashes[kind], sums[kind] = hash, func() string { return hex.EncodeToString(hash.Sum(nil)) }
		}
		event := eventOf(t, m.Subject)
		if err := proto.Unmarshal(m.Data, event); err != nil {
			t.Errorf("message %d on %s: %v", i+1, m.Subject, err)
		}
		say(hashes[kind], event)
		got[kind] = told{got[kind].Messages + 1, sums[kind]()}
	}
	same(t, got, want)
}

// say writes every field of a message by its name in Go, so that a field with another
// number or another name shows.
func say(out io.Writer, event proto.Message) {
	switch e := event.(type) {
	case *eventsv1.UsageEvent:
		sayUsage(out, e)
	case *eventsv1.WorkReceiptEvent:
		fmt.Fprintln(out, e.GetRequestId(), e.GetAttempt(), e.GetHubId(), e.GetDispatchedBy(), e.GetPriceVersionId(),
			e.GetProviderId(), e.GetEpoch(), e.GetModelId(), e.GetClaimed(), e.GetClaimedPromptTokens(),
			e.GetClaimedCompletionTokens(), e.GetSentTokens(), e.GetSentBytes(), e.GetComplete(), e.GetEndedAtMs(),
			hex.EncodeToString(e.GetProof()), hex.EncodeToString(e.GetPublicKey()),
			hex.EncodeToString(e.GetSignature()))
	case *eventsv1.VoidEvent:
		fmt.Fprintln(out, e.GetRequestId(), e.GetAttempt(), e.GetHubId(), e.GetProviderId())
	case *eventsv1.AttemptBatch:
		fmt.Fprintln(out, e.GetHubId())
		for _, a := range e.GetAttempts() {
			fmt.Fprintln(out, a.GetRequestId(), a.GetAttempt(), a.GetProviderId(), a.GetNodeId(), a.GetEpoch(),
				a.GetModelId(), int(a.GetOutcome()), a.GetFirstContentMs(), a.GetDurationMs(),
				a.GetCompletionTokens(), hex.EncodeToString(a.GetAccountTag()),
				a.GetExcused(), a.GetProbe(), a.GetPromptTokens(), a.GetCallerBlockedMs(), a.GetChat())
		}
	case *eventsv1.Presence:
		sayPresence(out, e)
	}
}

func sayUsage(out io.Writer, e *eventsv1.UsageEvent) {
	rates, route := e.GetRates(), e.GetRoute()
	fmt.Fprintln(out, e.GetRequestId(), e.GetAttempt(), e.GetHubId(), e.GetProviderId(), e.GetEpoch(), e.GetModelId(),
		e.GetPriceVersionId(), int(e.GetEnding()), e.GetBillablePromptTokens(), e.GetBillableCompletionTokens(),
		int(e.GetClaimState()), e.GetClaimedPromptTokens(), e.GetClaimedCompletionTokens(),
		e.GetRecountedCompletionTokens(), e.GetDeliveredBytes(), e.GetEstimatedPromptTokens(),
		e.GetDispatchedAt().AsTime().UnixNano(),
		e.GetEndedAt().AsTime().UnixNano(), e.GetFirstContentMs(), int(e.GetEvidenceSource()), e.GetSettled(),
		hex.EncodeToString(e.GetLedgerMac()), hex.EncodeToString(e.GetSeal()),
		int(route.GetMode()), route.GetRequestedProviderId(), int(route.GetFallbackReason()),
		rates.GetInputPicoUsdPerToken(), rates.GetOutputPicoUsdPerToken(), rates.GetPayoutInputPicoUsdPerToken(),
		rates.GetPayoutOutputPicoUsdPerToken(), int(rates.GetUnit()))
}

func sayPresence(out io.Writer, e *eventsv1.Presence) {
	fmt.Fprintln(out, e.GetHubId(), e.GetIncarnation(), e.GetDispatchAddress(), e.GetRevision(), e.GetFull(), e.GetPart(),
		e.GetParts(), e.GetEndedEpochs())
	for _, s := range e.GetSessions() {
		fmt.Fprintln(out, s.GetProviderId(), s.GetProviderName(), s.GetNodeId(), s.GetEpoch(), int(s.GetConnectionMode()),
			s.GetActive(), s.GetDraining(), s.GetCapabilities(), s.GetMaxRequestBytes(), s.GetRegion(), s.GetCapacity(),
			s.GetReportedActive(), s.GetReportedQueued(), s.GetProbation(), s.GetUptime_30D(), s.GetTakesWarmups())
		for _, m := range s.GetModels() {
			fmt.Fprintln(out, m.GetModelId(), m.GetHealthy(), m.GetReportedContextLength(), m.GetCapacity(), m.GetInFlight(),
				m.GetQuantization())
		}
	}
}
