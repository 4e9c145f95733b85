package rpc

import (
	"context"
	"errors"
	"fmt"
	"time"

	verifierv1 "svc.internal/proto/svc/verifier/v1"
	"svc.internal/services/verifier/internal/keep"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/replay"
	"svc.internal/services/verifier/internal/store"
)

// maxPageBytes bounds the bytes of evidence in an answer.
const maxPageBytes = 2 << 20

// evidencePlace is the place in a verdict's evidence: an event, a body of it, and how many
// bytes of that body were shown.
type evidencePlace struct {
	Event  int64 `json:"e"`
	Body   int   `json:"b"`
	Offset int   `json:"o"`
}

// body is something to be shown, maybe in parts.
type body[T any] struct {
	of    T
	bytes []byte
}

// shownPart is a part of a body.
type shownPart[T any] struct {
	of     T
	bytes  []byte
	offset int
	total  int
}

// walk shows the bodies of a verdict's evidence from a place on, until an answer is full. It
// returns the place to go on from; ok is false behind the end.
func walk[T any](
	ctx context.Context, s evidenceSource, id probe.VerdictID, from evidencePlace,
	bodies func(replay.Sealed) ([]body[T], error),
) (parts []shownPart[T], next evidencePlace, ok bool, err error) {
	room := maxPageBytes
	for {
		_, first, _, err := s.Span(ctx, id)
		if err != nil {
			return nil, next, false, err
		}
		page, err := s.Evidence(ctx, id, from.Event)
		if err != nil {
			return nil, next, false, err
		}
		number := max(from.Event, first) + int64(page.Cleared)
		if number != from.Event {
			from = evidencePlace{Event: number}
		}
		for _, piece := range page.Pieces {
			list, err := bodies(piece)
			if err != nil {
				return nil, next, false, err
			}
			for ; from.Body < len(list); from.Body, from.Offset = from.Body+1, 0 {
				b := list[from.Body]
				start := min(max(from.Offset, 0), len(b.bytes))
				end := min(start+room, len(b.bytes))
				if room == 0 && len(b.bytes) > 0 {
					return parts, from, true, nil
				}
				parts = append(parts, shownPart[T]{b.of, b.bytes[start:end], start, len(b.bytes)})
				room -= end - start
				if end < len(b.bytes) {
					from.Offset = end
					return parts, from, true, nil
				}
			}
			from = evidencePlace{Event: from.Event + 1}
		}
		if page.Next == 0 {
			return parts, next, false, nil
		}
		from = evidencePlace{Event: page.Next}
	}
}

// evidenceSource has the evidence of verdicts.
type evidenceSource interface {
	Span(ctx context.Context, id probe.VerdictID) (o probe.Offer, first, last int64, err error)
	Evidence(ctx context.Context, id probe.VerdictID, from int64) (keep.Page, error)
}

// stored is the evidence as it is kept.
type stored struct {
	*store.Store
	*keep.Keeper
}

// ownBodies are the question and the answer of a probe. What else happened is not the
// provider's.
func ownBodies(p replay.Sealed) ([]body[ownAnswer], error) {
	piece, err := replay.Decode(p.Plain)
	if err != nil {
		return nil, fmt.Errorf("read the evidence of a penalty: %w", err)
	}
	rec := piece.Event.Judged
	if rec == nil {
		return nil, nil
	}
	own := ownAnswer{RequestID: rec.Answer.RequestID, Kind: rec.Plan.Kind, At: rec.Ended}
	question, answer := own, own
	question.Side, answer.Side = "question", "answer"
	return []body[ownAnswer]{{question, rec.Request}, {answer, rec.Answer.Raw}}, nil
}

// ownAnswer is a body of a probe that its provider may see.
type ownAnswer struct {
	RequestID string
	Kind      probe.Kind
	At        time.Time
	Side      string
}

// GetEvidence is one page of the pieces that a verdict rests on.
func (s *Admin) GetEvidence(
	ctx context.Context, req *verifierv1.GetEvidenceRequest,
) (*verifierv1.GetEvidenceResponse, error) {
	id, err := verdictOf(req.GetVerdictId(), VerdictNotFound, "verdict_id")
	if err != nil {
		return nil, err
	}
	from, err := readCursor[evidencePlace](req.GetCursor())
	if err != nil {
		return nil, err
	}
	v, err := s.Store.Verdict(ctx, id)
	if err != nil {
		return nil, shown(err)
	}
	parts, next, ok, err := walk(ctx, stored{s.Store, s.Keeper}, id, from,
		func(p replay.Sealed) ([]body[replay.Sealed], error) { return []body[replay.Sealed]{{p, p.Plain}}, nil })
	if err != nil {
		return nil, shown(err)
	}
	resp := &verifierv1.GetEvidenceResponse{Verdict: verdictToProto(v)}
	if ok {
		resp.NextCursor = writeCursor(next)
	}
	for _, p := range parts {
		resp.Pieces = append(resp.Pieces, &verifierv1.EvidencePiece{
			PieceId: p.of.ID.String(), Json: p.bytes, Offset: number(p.offset), Total: number(p.total), Leaf: p.of.Leaf[:],
			Previous: p.of.Previous[:], Link: p.of.Link[:],
		})
	}
	return resp, nil
}

// GetPenaltyEvidence is one page of what a provider was asked and answered in the
// observations that its penalty rests on.
func (s *Self) GetPenaltyEvidence(
	ctx context.Context, req *verifierv1.GetPenaltyEvidenceRequest,
) (*verifierv1.GetPenaltyEvidenceResponse, error) {
	provider, err := s.caller(ctx, req.GetProviderId())
	if err != nil {
		return nil, err
	}
	id, err := verdictOf(req.GetPenaltyId(), PenaltyNotFound, "penalty_id")
	if err != nil {
		return nil, err
	}
	from, err := readCursor[evidencePlace](req.GetCursor())
	if err != nil {
		return nil, err
	}
	v, err := s.Store.Verdict(ctx, id)
	// Only what settlement opened is a penalty, and another's is as good as none.
	switch {
	case errors.Is(err, store.ErrVerdict):
		return nil, notFound(PenaltyNotFound, "penalty_id")
	case err != nil:
		return nil, err
	case v.Offer.Provider != provider, v.Effects.Slash == 0:
		return nil, notFound(PenaltyNotFound, "penalty_id")
	}
	parts, next, ok, err := walk(ctx, stored{s.Store, s.Keeper}, id, from, ownBodies)
	if err != nil {
		return nil, shown(err)
	}
	resp := &verifierv1.GetPenaltyEvidenceResponse{}
	if ok {
		resp.NextCursor = writeCursor(next)
	}
	for _, p := range parts {
		resp.List = append(resp.List, &verifierv1.OwnAnswer{
			RequestId: p.of.RequestID, Kind: string(p.of.Kind), At: moment(p.of.At), Side: string(p.of.Side), Body: p.bytes,
			Offset: number(p.offset), Total: number(p.total),
		})
	}
	return resp, nil
}
