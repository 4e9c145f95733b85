package billingledger

import (
	"io"
	"log/slog"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/metric"
	"google.golang.org/grpc"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/clock"
	catalogv1 "svc.internal/proto/svc/catalog/v1"
)

// The numbers of the maxConns connections that claims of idempotency keys, visits, and
// reads of rates and of sessions may take, because the calls for one key or address wait
// for each other. At most claimsOfKey calls of one key stand for its connections at a
// time, fewer than there are, and up to claimsWaiting more wait outside. Signing in takes
// at most four more connections, that of operators two, and sums of demand one.
const (
	readCalls     = 1
	claimCalls    = 3
	claimsOfKey   = 2
	runningCalls  = 2
	runningOfKey  = 1
	claimsWaiting = 256
	visitCalls    = 1
	openingCalls  = 1 // of visitors' sessions, so that visits do not wait for them
	sessionCalls  = 1
	rateCalls     = 1
	operatorCalls = 1
)

// Deps are the parts that the service works with. DB is a pool that is opened for Schema
// and Role.
type Deps struct {
	Log     *slog.Logger
	Meters  metric.MeterProvider
	Clock   clock.Clock
	Random  io.Reader
	Bus     *bus.Conn
	DB      *pgxpool.Pool
	Catalog catalogv1.CatalogServiceClient
	// Address is where other replicas and gateways reach this one, empty for nowhere. Replica connects to another
	// replica by its address.
	Address string
	Replica func(address string) (grpc.ClientConnInterface, error)
}
