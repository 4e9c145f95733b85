package node

import (
	"context"
	"fmt"
	"io"
	"testing"

	"google.golang.org/grpc"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/pg"
	billingv1 "svc.internal/proto/svc/billing/v1"
)

// severed is a desk whose database closes every connection.
type severed struct{ desk }

func (s *severed) Register(r grpc.ServiceRegistrar) { billingv1.RegisterKeyServiceServer(r, s) }

func (*severed) AuthenticateKey(
	context.Context, *billingv1.AuthenticateKeyRequest,
) (*billingv1.AuthenticateKeyResponse, error) {
	return nil, fmt.Errorf("select the key: %w", io.ErrUnexpectedEOF)
}

func TestALostConnectionIsAFaultWhereAServiceHasTables(t *testing.T) {
	for what, tc := range map[string]struct {
		tables Tables
		want   fault.Kind
	}{
		"tables":    {pg.Tables{Schema: "billing"}, fault.Unavailable},
		"no tables": {nil, fault.Internal},
	} {
		spec := deskSpec()
		spec.Tables = tc.tables
		n := newNode(t, Config{AdminAddr: "127.0.0.1:0"}, spec)
		n.Add(BillingLedger, &severed{})
		conn, err := n.Peer(BillingLedger)
		if err != nil {
			t.Fatal(err)
		}
		_, err = billingv1.NewKeyServiceClient(conn).AuthenticateKey(t.Context(), &billingv1.AuthenticateKeyRequest{})
		if f, ok := fault.As(err); !ok {
			t.Errorf("%s: got the error %v, want a fault", what, err)
		} else if f.Kind != tc.want {
			t.Errorf("%s: f.Kind: got %d, want %d", what, f.Kind, tc.want)
		}
	}
}
