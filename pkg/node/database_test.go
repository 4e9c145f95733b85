package node

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
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

// TestAToolReadsTheDatabaseAsAServiceDoes checks that a tool takes the URL itself and a file with it, and refuses what
// a service refuses.
func TestAToolReadsTheDatabaseAsAServiceDoes(t *testing.T) {
	t.Parallel()
	const url, open = "postgres://login:hidden@127.0.0.1/x", "postgres://login:hidden@db.example/x"
	file := filepath.Join(t.TempDir(), "url")
	if err := os.WriteFile(file, []byte(url+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		environ     []string
		want, fault string
	}{
		"a URL":             {[]string{"DATABASE_URL=" + url}, url, "<nil>"},
		"a file":            {[]string{"DATABASE_URL=file:" + file}, url, "<nil>"},
		"no file":           {[]string{"DATABASE_URL=file:" + file + "x"}, "", "no such file"},
		"nothing":           {nil, "", "DATABASE_URL is not set"},
		"unverified":        {[]string{"DATABASE_URL=" + open}, "", "DATABASE_URL: "},
		"unverified by say": {[]string{"DATABASE_URL=" + open, "SVC_DATABASE_ALLOW_UNVERIFIED=1"}, open, "<nil>"},
	} {
		got, err := ToolDatabaseURL(pg.Tables{Schema: "x"}, c.environ)
		if got != c.want {
			t.Errorf("%s: got the URL %q, want %q", what, got, c.want)
		}
		says := fmt.Sprint(err)
		if !strings.Contains(says, c.fault) {
			t.Errorf("%s: got the error %v, want %q in it", what, err, c.fault)
		}
		if strings.Contains(says, "hidden") {
			t.Errorf("%s: got the error %q, want no password in it", what, says)
		}
	}
}
