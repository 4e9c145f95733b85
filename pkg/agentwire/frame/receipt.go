package frame

import (
	"crypto/ed25519"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/workreceipt"
	agentv2 "svc.internal/proto/svc/agent/v2"
)

// Receipt returns a work receipt as a message.
func Receipt(s workreceipt.Signed) *agentv2.Receipt {
	return &agentv2.Receipt{
		RequestId: s.Request[:], Attempt: s.Attempt, ProviderId: s.Provider[:], Epoch: s.Epoch, ModelId: s.Model,
		Claimed: s.Claimed, ClaimedPromptTokens: s.ClaimedPrompt, ClaimedCompletionTokens: s.ClaimedCompletion,
		SentTokens: s.SentTokens, SentBytes: s.SentBytes, Complete: s.Complete, EndedAtMs: s.EndedAt.UnixMilli(),
		Proof: s.Proof, Signature: s.Signature[:],
	}
}

// ReadReceipt reads a work receipt from a message. It returns workreceipt.ErrMalformed
// for a receipt that no agent makes. It does not verify the signature; Signed.Verify
// does. The proof aliases the message's.
func ReadReceipt(m *agentv2.Receipt) (workreceipt.Signed, error) {
	if len(m.GetRequestId()) != len(ids.RequestID{}) || len(m.GetProviderId()) != len(ids.ProviderID{}) ||
		len(m.GetSignature()) != ed25519.SignatureSize {
		return workreceipt.Signed{}, workreceipt.ErrMalformed
	}
	s := workreceipt.Signed{Receipt: workreceipt.Receipt{
		Request: ids.RequestID(m.GetRequestId()), Attempt: m.GetAttempt(),
		Provider: ids.ProviderID(m.GetProviderId()), Epoch: m.GetEpoch(), Model: m.GetModelId(),
		Claimed: m.GetClaimed(), ClaimedPrompt: m.GetClaimedPromptTokens(),
		ClaimedCompletion: m.GetClaimedCompletionTokens(),
		SentTokens:        m.GetSentTokens(), SentBytes: m.GetSentBytes(), Complete: m.GetComplete(),
		EndedAt: time.UnixMilli(m.GetEndedAtMs()).UTC(), Proof: m.GetProof(),
	}, Signature: [ed25519.SignatureSize]byte(m.GetSignature())}
	return s, s.Validate()
}

// EncodeReceipt returns the bytes of a work receipt's message.
func EncodeReceipt(s workreceipt.Signed) ([]byte, error) {
	data, err := proto.Marshal(Receipt(s))
	if err != nil {
		return nil, fmt.Errorf("encode a receipt: %w", err)
	}
	return data, nil
}

// DecodeReceipt is the inverse of EncodeReceipt; see ReadReceipt.
func DecodeReceipt(data []byte) (workreceipt.Signed, error) {
	m := &agentv2.Receipt{}
	if proto.Unmarshal(data, m) != nil {
		return workreceipt.Signed{}, workreceipt.ErrMalformed
	}
	return ReadReceipt(m)
}
