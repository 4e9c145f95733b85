package peers

import (
	"context"
	"crypto/rand"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	billingv1 "svc.internal/proto/svc/billing/v1"
)

// pages answers ListPayouts with pages of two, and counts them.
type pages struct {
	billingv1.AccrualServiceClient
	payout       *billingv1.BookedPayout
	payouts, got int
}

func (p *pages) ListPayouts(
	_ context.Context, req *billingv1.ListPayoutsRequest, _ ...grpc.CallOption,
) (*billingv1.ListPayoutsResponse, error) {
	p.got++
	from, _ := strconv.Atoi(req.GetPageToken())
	resp := &billingv1.ListPayoutsResponse{}
	for n := from; n < min(from+2, p.payouts); n++ {
		resp.Payouts = append(resp.Payouts, p.payout)
	}
	if from+2 < p.payouts {
		resp.NextPageToken = strconv.Itoa(from + 2)
	}
	return resp, nil
}

func newPages(t *testing.T, payouts int) *pages {
	t.Helper()
	id, err := ids.NewRequest(time.Unix(1_700_000_000, 0), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &pages{payouts: payouts, payout: &billingv1.BookedPayout{PayoutId: id.String(), ProviderId: id.String(),
		EntryId: id.String(), AmountNanoUsd: 1}}
}

func TestMorePayoutsThanAnAdoptionReadsAreRefusedAndNotCutOff(t *testing.T) {
	t.Parallel()
	since, limit := time.Unix(1_700_000_000, 0), 4
	for payouts, reads := range map[int]int{0: 1, 3: 2, 4: 2, 5: 3, 1_000_000: 3} {
		stub := newPages(t, payouts)
		list, err := PayoutBooks{Accruals: stub}.Payouts(t.Context(), since, limit)
		switch {
		case payouts <= limit && err != nil:
			t.Errorf("%d payouts: got the error %v, want none", payouts, err)
		case payouts <= limit && len(list) != payouts:
			t.Errorf("%d payouts: got %d, want all", payouts, len(list))
		case payouts > limit && !fault.Is(err, fault.InvalidValue):
			t.Errorf("%d payouts: got the error %v, want %s", payouts, err, fault.InvalidValue)
		case payouts > limit && !strings.Contains(err.Error(), "more than 4 payouts since 2023-11-14T22:13:20Z"):
			t.Errorf("%d payouts: got the error %v, want the bound and the time", payouts, err)
		}
		if stub.got != reads {
			t.Errorf("%d payouts: got %d pages read, want %d", payouts, stub.got, reads)
		}
	}
}
