// Package actlist merges what operators did in each service into one list, the newest first.
//
// Each service keeps the acts of its own operators' calls, so no other place has them all. A page
// asks every service for its acts behind the cursor and merges the answers by time, then by the
// service's name, then by the number of the act within its service. This order is total, and the
// cursor is the place of the last act of a page in it: for a service before the cursor's in the
// order of names, all acts of the cursor's time were shown; for a service behind it, none was.
//
// So pages show every act once, however many acts have one time, if every service answered and the
// act was committed before its page was read. Nothing is kept between two pages.
//
// A service that does not answer in time is named in the page and hides no other. Such a page lacks
// the acts of that service: it must be asked for again, with the same cursor, before next_cursor
// is followed.
package actlist

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"math"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/acts"
	"svc.internal/pkg/fault"
	actsv1 "svc.internal/proto/svc/acts/v1"
)

const (
	defaultPage = 50
	// maxCursor bounds a cursor in bytes.
	maxCursor = 256
	// Timeout bounds how long a page waits for a service.
	Timeout = 5 * time.Second
)

// Source is a service that keeps acts.
type Source struct {
	// Service is the name under which its acts are listed.
	Service string
	List    func(ctx context.Context, q *actsv1.ActQuery) ([]*actsv1.Act, error)
}

// List answers acts.v1.ActService from sources. It has the form of a client, so that the routes
// of operators call it as they call the services.
type List struct {
	sources []Source
	timeout time.Duration
}

// New returns a list over sources, in the order of their names. A source that takes longer than
// the timeout counts as away.
func New(sources []Source, timeout time.Duration) *List {
	sources = slices.Clone(sources)
	slices.SortFunc(sources, func(a, b Source) int { return cmp.Compare(a.Service, b.Service) })
	return &List{sources, timeout}
}

// ListActs is one page. It fails with invalid_value, and with service_unavailable if no service that
// was asked answers.
func (l *List) ListActs(
	ctx context.Context, req *actsv1.ListActsRequest, _ ...grpc.CallOption,
) (*actsv1.ListActsResponse, error) {
	sources, err := l.asked(req.GetService())
	if err != nil {
		return nil, err
	}
	query, after, err := read(req)
	if err != nil {
		return nil, err
	}
	size := int(query.GetLimit()) - 1
	answers := l.ask(ctx, sources, func(service string) *actsv1.ActQuery {
		return &actsv1.ActQuery{Operator: query.GetOperator(), Subject: query.GetSubject(), Since: query.GetSince(),
			Until: query.GetUntil(), After: after.in(service), Limit: query.GetLimit()}
	})
	resp := &actsv1.ListActsResponse{}
	for i, a := range answers {
		switch {
		case a.err == nil:
			resp.List = append(resp.List, a.list...)
		case ctx.Err() != nil || isRefusal(a.err):
			return nil, a.err
		default:
			resp.Missing = append(resp.Missing, sources[i].Service)
		}
	}
	if len(resp.GetMissing()) == len(sources) {
		return nil, fault.Wrap(answers[0].err, fault.Unavailable, fault.ServiceUnavailable,
			"no service that keeps acts answers")
	}
	slices.SortFunc(resp.List, inOrder)
	if len(resp.GetList()) > size {
		resp.List = resp.List[:size]
		resp.NextCursor = writeCursor(resp.GetList()[size-1])
	}
	return resp, nil
}

// asked returns the sources that a filter by service asks.
func (l *List) asked(service string) ([]Source, error) {
	if service == "" {
		return l.sources, nil
	}
	for _, s := range l.sources {
		if s.Service == service {
			return []Source{s}, nil
		}
	}
	return nil, fault.New(fault.Invalid, fault.InvalidValue, "service must be a service that operators act on").On(
		"service")
}

// read returns what every source is asked for, and where the page begins. A source is asked for
// one act more than the page has, by which the list knows whether another page follows.
func read(req *actsv1.ListActsRequest) (q *actsv1.ActQuery, after cursor, err error) {
	if err := acts.Check(req.GetOperator(), req.GetSubject()); err != nil {
		return nil, cursor{}, err
	}
	size := req.GetPageSize()
	switch {
	case size == 0:
		size = defaultPage
	case size < 0 || size > acts.MaxPage:
		return nil, cursor{}, fault.New(fault.Invalid, fault.InvalidValue, "page_size must be 1 to %d", acts.MaxPage).On(
			"page_size")
	}
	q = &actsv1.ActQuery{Operator: req.GetOperator(), Subject: req.GetSubject(), Limit: size + 1}
	if q.Since, err = timeOf("since", req.GetSince()); err != nil {
		return nil, cursor{}, err
	}
	if q.Until, err = timeOf("until", req.GetUntil()); err != nil {
		return nil, cursor{}, err
	}
	after, err = readCursor(req.GetCursor())
	return q, after, err
}

// timeOf reads a time of a filter; nil for an empty text.
func timeOf(field, text string) (*timestamppb.Timestamp, error) {
	if text == "" {
		return nil, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return nil, fault.New(fault.Invalid, fault.InvalidValue, "%s must be a time such as 2026-11-30T12:00:00Z",
			field).On(field)
	}
	return timestamppb.New(at), nil
}

// answer is what a source said.
type answer struct {
	list []*actsv1.Act
	err  error
}

// ask asks sources at once and returns their answers in the order of the sources.
func (l *List) ask(ctx context.Context, sources []Source, query func(service string) *actsv1.ActQuery) []answer {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	answers := make([]answer, len(sources))
	var wg sync.WaitGroup
	for i, s := range sources {
		wg.Go(func() {
			q := query(s.Service)
			list, err := s.List(ctx, q)
			answers[i] = answer{of(s.Service, list[:min(len(list), int(q.GetLimit()))]), err}
		})
	}
	wg.Wait()
	return answers
}

// of returns the acts of a service with its name. They are copies, because a service of this
// process shares what it answers.
func of(service string, list []*actsv1.Act) []*actsv1.Act {
	named := make([]*actsv1.Act, len(list))
	for i, a := range list {
		named[i] = proto.CloneOf(a)
		named[i].Service = service
	}
	return named
}

// isRefusal reports whether an error is about the request, which is no fault of the service.
func isRefusal(err error) bool {
	f, ok := fault.As(fault.FromError(err))
	return ok && f.Kind == fault.Invalid
}

// inOrder compares acts by their place in the list.
func inOrder(a, b *actsv1.Act) int {
	return cmp.Or(
		b.GetAt().AsTime().Compare(a.GetAt().AsTime()),
		cmp.Compare(a.GetService(), b.GetService()),
		cmp.Compare(b.GetActId(), a.GetActId()),
	)
}

// cursor is the place of an act in the list. The zero value is the beginning.
type cursor struct {
	// At is in microseconds since 1970, as the services keep times.
	At      int64  `json:"t"`
	Service string `json:"s"`
	ID      int64  `json:"i"`
}

// in returns the place of the cursor in the acts of a service; nil for the beginning.
func (c cursor) in(service string) *actsv1.ActPlace {
	if c == (cursor{}) {
		return nil
	}
	place := &actsv1.ActPlace{At: timestamppb.New(time.UnixMicro(c.At))}
	switch {
	case service == c.Service:
		place.ActId = c.ID
	case service > c.Service:
		place.ActId = math.MaxInt64 // none of that time was shown
	}
	return place
}

func writeCursor(a *actsv1.Act) string {
	text, err := json.Marshal(cursor{a.GetAt().AsTime().UnixMicro(), a.GetService(), a.GetActId()})
	if err != nil {
		return "" // a cursor is plain values
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

// readCursor reads what writeCursor wrote; the zero cursor for an empty text.
func readCursor(text string) (c cursor, err error) {
	if text == "" {
		return cursor{}, nil
	}
	plain, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(text) > maxCursor || json.Unmarshal(plain, &c) != nil || c.ID < 1 || c.Service == "" ||
		timestamppb.New(time.UnixMicro(c.At)).CheckValid() != nil {
		return cursor{}, fault.New(fault.Invalid, fault.InvalidValue, "cursor must be next_cursor of the page before").On(
			"cursor")
	}
	return c, nil
}
