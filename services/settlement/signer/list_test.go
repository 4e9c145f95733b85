package signer

import (
	"fmt"
	"testing"

	"svc.internal/pkg/fault"
	signerv1 "svc.internal/proto/svc/signer/v1"
)

func TestTheRecordSaysWhatWasSignedOfEachNonce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first := b.sign(t, 0, payout(0, 7))
	b.sign(t, 1, canceled(0))
	b.sign(t, 0, canceled(2))
	senders, err := b.clients[0].ListSenders(t.Context(), &signerv1.ListSendersRequest{ChainId: 254})
	if err != nil {
		t.Fatal(err)
	}
	if got := senders.GetSenders(); len(got) != 1 {
		t.Fatalf("senders: got %v, want one", got)
	} else if got := fmt.Sprint(got[0].GetKey(), got[0].GetNext()); got != "payout3" {
		t.Errorf("the sender: got %s, want payout with 3 as its next nonce", got)
	}
	one := senders.GetSenders()[0]
	signed, err := b.clients[1].ListSigned(t.Context(), &signerv1.ListSignedRequest{ChainId: 254,
		Sender: one.GetAddress()})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, n := range signed.GetNonces() {
		got = append(got, fmt.Sprintf("%d %x %t %s", n.GetNonce(), n.GetCallHash(), n.GetCancelled(), n.GetAmount()))
	}
	want := fmt.Sprintf("[0 %x true 7 2  true ]", first.GetCallHash())
	if fmt.Sprint(got) != want {
		t.Errorf("nonces: got %v, want %s", got, want)
	}
	behind, err := b.clients[1].ListSenders(t.Context(), &signerv1.ListSendersRequest{ChainId: 254,
		After: one.GetAddress()})
	if err != nil {
		t.Fatal(err)
	}
	if len(behind.GetSenders()) != 0 {
		t.Errorf("behind the last sender: got %v, want nobody", behind.GetSenders())
	}
	for want, req := range map[fault.Reason]*signerv1.ListSignedRequest{
		fault.ChainNotAllowed: {ChainId: 1, Sender: one.GetAddress()},
		fault.InvalidValue:    {ChainId: 254, Sender: []byte{1}},
	} {
		if _, err := b.clients[0].ListSigned(t.Context(), req); reasonOf(err) != want {
			t.Errorf("%v: got the error %v, want %s", req, err, want)
		}
	}
}
