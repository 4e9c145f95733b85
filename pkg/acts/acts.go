// Package acts answers what operators did to a service, from the service's own audit entries.
// Each service that operators act on answers the same question (acts.v1.ActQuery), and
// edge-gateway merges the answers. Package acttable reads the entries of a table.
package acts

import (
	"context"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/actor"
	"svc.internal/pkg/fault"
	actsv1 "svc.internal/proto/svc/acts/v1"
)

const (
	// MaxPage bounds a page of the merged list.
	MaxPage = 100
	// MaxLimit bounds what one service is asked for: a page and one more, by which the merged
	// list knows whether another page follows.
	MaxLimit = MaxPage + 1
	// maxSubject bounds a subject in bytes. The id of a model is the longest.
	maxSubject = 256
)

// Place is a place in a list of acts, the newest first.
type Place struct {
	At time.Time
	ID int64
}

// Filter says which acts are wanted.
type Filter struct {
	// Actor is that of audit entries (package actor); empty for all.
	Actor, Subject string
	// Acts at Since or later, and before Until. Zero is no bound.
	Since, Until time.Time
	// After is the place behind which the acts are; nil for the beginning.
	After *Place
	Limit int
}

// Act is one audit entry.
type Act struct {
	ID                     int64
	At                     time.Time
	Actor, Action, Subject string
	// Detail is a JSON object.
	Detail string
}

// Store reads audit entries, the newest first.
type Store interface {
	Acts(ctx context.Context, f Filter) ([]Act, error)
}

// List answers a query from a store. It fails with invalid_value.
func List(ctx context.Context, store Store, query *actsv1.ActQuery) ([]*actsv1.Act, error) {
	f, err := filterFromProto(query)
	if err != nil {
		return nil, err
	}
	list, err := store.Acts(ctx, f)
	if err != nil {
		return nil, err
	}
	out := make([]*actsv1.Act, 0, len(list))
	for _, a := range list {
		name := actor.OperatorName(a.Actor)
		out = append(out, &actsv1.Act{ActId: a.ID, At: timestamppb.New(a.At), Operator: name, Action: a.Action,
			Subject: a.Subject, Detail: a.Detail})
	}
	return out, nil
}

func filterFromProto(q *actsv1.ActQuery) (f Filter, err error) {
	if err := Check(q.GetOperator(), q.GetSubject()); err != nil {
		return Filter{}, err
	}
	f.Subject = canonical(q.GetSubject())
	if q.GetOperator() != "" {
		f.Actor = actor.Operator + ":" + q.GetOperator()
	}
	if f.Since, err = Time("since", q.GetSince()); err != nil {
		return Filter{}, err
	}
	if f.Until, err = Time("until", q.GetUntil()); err != nil {
		return Filter{}, err
	}
	if after := q.GetAfter(); after != nil {
		at, err := Time("after", after.GetAt())
		if err != nil {
			return Filter{}, err
		}
		if after.GetActId() < 0 || at.IsZero() {
			return Filter{}, invalid("after", "a place in the list")
		}
		f.After = &Place{at, after.GetActId()}
	}
	if f.Limit = int(q.GetLimit()); f.Limit < 1 || f.Limit > MaxLimit {
		return Filter{}, fault.New(fault.Invalid, fault.InvalidValue, "limit must be 1 to %d", MaxLimit).On("limit")
	}
	return f, nil
}

var (
	hexadecimal = regexp.MustCompile(`^0[xX][0-9a-fA-F]+$`)
	uuid        = regexp.MustCompile(`(?i)^([0-9a-f]{8})-?([0-9a-f]{4})-?([0-9a-f]{4})-?([0-9a-f]{4})-?([0-9a-f]{12})$`)
)

// canonical returns a subject in the form in which services keep it: ids and hashes in lower case,
// ids with their dashes. Otherwise a filter in another form would hide acts.
func canonical(subject string) string {
	switch {
	case hexadecimal.MatchString(subject):
		return strings.ToLower(subject)
	case uuid.MatchString(subject):
		return strings.ToLower(uuid.ReplaceAllString(subject, "$1-$2-$3-$4-$5"))
	}
	return subject
}

// operatorName is the form of the names that audit entries keep.
var operatorName = regexp.MustCompile(`^[a-z0-9._@-]{1,64}$`)

// Check refuses filters that no act can have, with invalid_value. Empty filters are none.
func Check(operator, subject string) error {
	switch {
	case operator != "" && !operatorName.MatchString(operator):
		return invalid("operator", "the name of an operator as acts show it: name@id")
	case len(subject) > maxSubject || !utf8.ValidString(subject) || strings.ContainsRune(subject, 0):
		return fault.New(fault.Invalid, fault.InvalidValue, "subject must be UTF-8 text without NUL, of at most %d bytes",
			maxSubject).On("subject")
	}
	return nil
}

// Time reads a time of a query; the zero time for none. It fails with invalid_value.
func Time(field string, t *timestamppb.Timestamp) (time.Time, error) {
	if t == nil {
		return time.Time{}, nil
	}
	if t.CheckValid() != nil {
		return time.Time{}, invalid(field, "a time")
	}
	return t.AsTime(), nil
}

func invalid(field, want string) error {
	return fault.New(fault.Invalid, fault.InvalidValue, "%s must be %s", field, want).On(field)
}
