// Package rpc answers the verifier's gRPC calls. It reads from the store and hands what
// people decide to Actions.
package rpc

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math"
	"time"
	"unicode"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	verifierv1 "svc.internal/proto/svc/verifier/v1"
	"svc.internal/services/verifier/internal/keep"
	"svc.internal/services/verifier/internal/offers"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/standing"
	"svc.internal/services/verifier/internal/store"
)

// Reasons that the verifier gives.
const (
	OfferingNotFound fault.Reason = "offering_not_found"
	VerdictNotFound  fault.Reason = "verdict_not_found"
	PenaltyNotFound  fault.Reason = "penalty_not_found"
	EffectNotFound   fault.Reason = "effect_not_found"
	BenchmarkTooSoon fault.Reason = "benchmark_too_soon"
	EvidenceDeleted  fault.Reason = "evidence_deleted"
	NoReference      fault.Reason = "no_reference"
	NotCalibrated    fault.Reason = "not_calibrated"
)

const (
	defaultLength = 50
	maxModel      = 256
	maxReason     = 500
	maxKey        = 200
	maxCursor     = 512
)

// Actions carry out what people decide. Each returns a fault where it refuses.
type Actions interface {
	// Approve is an operator's word on a penalty that waits for it.
	Approve(ctx context.Context, v store.Verdict, operator string, refuse bool) (standing.Outcome, error)
	// Void voids the observations of an offer since a time. key names the decision.
	Void(ctx context.Context, o probe.Offer, operator string, since time.Time, key string) error
	// Calibrate begins a calibration of each stratum of a model that has references.
	Calibrate(ctx context.Context, model string) ([]store.CalibrationRun, error)
	// Benchmark begins a benchmark of an offer, or returns the run that is under way.
	Benchmark(ctx context.Context, o probe.Offer) (store.Run, error)
}

// Admin implements VerifierAdminService. What it changes names the operator.
type Admin struct {
	verifierv1.UnimplementedVerifierAdminServiceServer
	Store   *store.Store
	Keeper  *keep.Keeper
	Offers  *offers.View
	Actions Actions
}

// Self implements VerifierSelfService, for gateways alone.
type Self struct {
	verifierv1.UnimplementedVerifierSelfServiceServer
	Store   *store.Store
	Keeper  *keep.Keeper
	Actions Actions
	// Gateway is the name in the callers' certificates.
	Gateway string
}

func invalid(field, want string) error {
	return fault.New(fault.Invalid, fault.InvalidValue, "%s must be %s", field, want).On(field)
}

func providerOf(text string) (ids.ProviderID, error) {
	id, err := ids.ParseProvider(text)
	if err != nil {
		return ids.ProviderID{}, invalid("provider_id", "a provider's id")
	}
	return id, nil
}

// offerOf reads an offer, both parts of which are required.
func offerOf(provider, model string) (probe.Offer, error) {
	id, err := providerOf(provider)
	if err != nil {
		return probe.Offer{}, err
	}
	if err := checkText("model_id", model, 1, maxModel); err != nil {
		return probe.Offer{}, err
	}
	return probe.Offer{Provider: id, Model: model}, nil
}

// verdictOf reads the id of a verdict that a caller looks for. No verdict has a malformed
// id, whatever it is called there.
func verdictOf(text string, reason fault.Reason, field string) (probe.VerdictID, error) {
	var id probe.VerdictID
	if err := id.Scan(text); err != nil || id.IsZero() {
		return probe.VerdictID{}, notFound(reason, field)
	}
	return id, nil
}

func notFound(reason fault.Reason, field string) error {
	return fault.New(fault.NotFound, reason, "there is none of this id").On(field)
}

// checkText refuses a text outside its bounds, in characters, or with characters that are
// not printable.
func checkText(field, text string, minLength, maxLength int) error {
	n := utf8.RuneCountInString(text)
	if n >= minLength && n <= maxLength && utf8.ValidString(text) {
		printable := true
		for _, r := range text {
			printable = printable && unicode.IsPrint(r)
		}
		if printable {
			return nil
		}
	}
	return fault.New(fault.Invalid, fault.InvalidValue, "%s must have %d to %d printable characters", field,
		minLength, maxLength).On(field)
}

// length reads how long a page is to be.
func length(n int32) (int, error) {
	switch {
	case n == 0:
		return defaultLength, nil
	case n < 0 || n > store.MaxPage:
		return 0, fault.New(fault.Invalid, fault.InvalidValue, "page_size must be 1 to %d", store.MaxPage).On("page_size")
	default:
		return int(n), nil
	}
}

// writeCursor makes a cursor of the place of a page's last row. It is opaque to callers.
func writeCursor[T any](place T) string {
	text, err := json.Marshal(place)
	if err != nil {
		return "" // a place is plain values
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

// readCursor reads what writeCursor wrote; the zero value for an empty cursor.
func readCursor[T any](cursor string) (place T, err error) {
	if cursor == "" {
		return place, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || len(cursor) > maxCursor || json.Unmarshal(text, &place) != nil {
		return place, invalid("cursor", "next_cursor of the page before")
	}
	return place, nil
}

// paged returns a page's rows and its next cursor. The store was asked for one row more
// than the page has.
func paged[T, P any](list []T, size int, place func(T) P) ([]T, string) {
	if len(list) <= size {
		return list, ""
	}
	return list[:size], writeCursor(place(list[size-1]))
}

// more asks for one row more than a page has, as far as the store gives so many.
func more(size int) int { return min(size+1, store.MaxPage) }

// shown turns an error of the store into the fault that callers see.
func shown(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, store.ErrOffer), errors.Is(err, store.ErrStanding):
		return fault.Wrap(err, fault.NotFound, OfferingNotFound, "there is no such offer").On("model_id")
	case errors.Is(err, store.ErrVerdict):
		return fault.Wrap(err, fault.NotFound, VerdictNotFound, "there is no such verdict").On("verdict_id")
	case errors.Is(err, store.ErrNotCalibrated):
		return fault.Wrap(err, fault.Precondition, NotCalibrated, "no stratum has a calibration that reaches penalties")
	case errors.Is(err, keep.ErrCleared):
		return fault.Wrap(err, fault.Precondition, EvidenceDeleted, "the evidence is deleted, because its time is over")
	case errors.Is(err, standing.ErrEvent):
		return fault.Wrap(err, fault.Precondition, fault.TransitionNotAllowed, "this cannot be now")
	default:
		return err
	}
}

// moment is nil for a time that has not come.
func moment(at time.Time) *timestamppb.Timestamp {
	if at.IsZero() {
		return nil
	}
	return timestamppb.New(at)
}

// number is a count as the public sees it.
func number[T ~int | ~int64](n T) int32 {
	return int32(min(max(int64(n), math.MinInt32), math.MaxInt32))
}

// idText is empty for no id.
func idText[T any](id ids.Of[T]) string {
	if id.IsZero() {
		return ""
	}
	return id.String()
}
