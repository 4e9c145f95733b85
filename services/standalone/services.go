package standalone

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net/http"

	"google.golang.org/grpc"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/clock"
	"svc.internal/pkg/config"
	"svc.internal/pkg/pg"
	"svc.internal/pkg/serve"
	"svc.internal/pkg/telemetry"
	billingv1 "svc.internal/proto/svc/billing/v1"
	catalogv1 "svc.internal/proto/svc/catalog/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"
	routerv1 "svc.internal/proto/svc/router/v1"
	settlementv1 "svc.internal/proto/svc/settlement/v1"
	billingledger "svc.internal/services/billing-ledger"
	catalog "svc.internal/services/catalog"
	edgegateway "svc.internal/services/edge-gateway"
	providerhub "svc.internal/services/provider-hub"
	router "svc.internal/services/router"
	settlement "svc.internal/services/settlement"
	"svc.internal/services/standalone/internal/localdata"
)

// inProcessAddress is where hubs of this process say they are dispatched to
// when no other process can be asking.
const inProcessAddress = "inprocess"

// service is what all services have in common.
type service interface {
	Register(grpc.ServiceRegistrar)
	Run(context.Context) error
	Ready(context.Context) error
}

// fleet is the services of this process and the way to all others.
type fleet struct {
	cfg    Config
	infra  *infra
	dir    *localdata.Dir
	tel    *telemetry.Telemetry
	in     serve.Interceptors
	local  *serve.InProcess
	pepper apikey.Pepper
	admin  config.Secret

	peers    map[string]grpc.ClientConnInterface
	services []named
	// httpHandler and wsHandler are set when gateway and hub run here.
	httpHandler http.Handler
	wsHandler   http.Handler
}

type named struct {
	name string
	service
}

func newFleet(ctx context.Context, cfg Config, in *infra, dir *localdata.Dir, tel *telemetry.Telemetry) (*fleet, error) {
	interceptors, err := serve.NewInterceptors(tel.Log, tel.Meters)
	if err != nil {
		return nil, fmt.Errorf("set up interceptors: %w", err)
	}
	f := &fleet{cfg: cfg, infra: in, dir: dir, tel: tel, in: interceptors,
		local: serve.NewInProcess(interceptors), peers: map[string]grpc.ClientConnInterface{}}
	if err := f.secrets(); err != nil {
		return nil, err
	}
	if err := f.connect(); err != nil {
		return nil, err
	}
	build := map[string]func(context.Context) (service, error){
		catalogName: f.newCatalog, billingName: f.newBilling, settlementName: f.newSettlement,
		routerName: f.newRouter, hubName: f.newHub, gatewayName: f.newGateway,
	}
	for _, name := range AllServices() {
		if !cfg.runs(name) {
			continue
		}
		svc, err := build[name](ctx)
		if err != nil {
			return nil, fmt.Errorf("set up %s: %w", name, err)
		}
		svc.Register(f.local)
		f.services = append(f.services, named{name, svc})
	}
	return f, nil
}

func (f *fleet) secrets() error {
	pepper, err := f.dir.Pepper()
	if f.cfg.Pepper.IsSet() {
		pepper, err = localdata.ParsePepper(f.cfg.Pepper.Reveal())
	}
	if err != nil {
		return fmt.Errorf("pepper: %w", err)
	}
	f.pepper, f.admin = pepper, f.cfg.AdminToken
	if !f.admin.IsSet() {
		token, err := f.dir.AdminToken()
		if err != nil {
			return fmt.Errorf("admin token: %w", err)
		}
		f.admin = config.NewSecret(token)
	}
	return nil
}

// connect finds the way to each service: a direct call for those here, a
// connection for the others.
func (f *fleet) connect() error {
	for _, name := range AllServices() {
		if f.cfg.runs(name) {
			f.peers[name] = f.local.Client()
			continue
		}
		conn, err := serve.Dial(f.cfg.Peers[name], f.in)
		if err != nil {
			return fmt.Errorf("SVC_PEERS: %s: %w", name, err)
		}
		f.infra.onClose(conn.Close)
		f.peers[name] = conn
	}
	return nil
}

// register offers the services of this process on a gRPC server.
func (f *fleet) register(r grpc.ServiceRegistrar) {
	for _, s := range f.services {
		s.Register(r)
	}
}

func (f *fleet) log(name string) *slog.Logger { return f.tel.Log.With("service", name) }

func (f *fleet) newCatalog(ctx context.Context) (service, error) {
	pool, err := f.infra.pool(ctx, catalog.Migrate, pg.Config{
		Schema: catalog.Schema, Role: catalog.Role, MaxConns: 4, ApplicationName: catalogName})
	if err != nil {
		return nil, err
	}
	return catalog.New(ctx, catalog.DefaultConfig(), catalog.Deps{
		Log: f.log(catalogName), Meters: f.tel.Meters, Clock: clock.System, Random: rand.Reader,
		DB: pool, Router: routerv1.NewRouterServiceClient(f.peers[routerName]),
	})
}

func (f *fleet) newBilling(ctx context.Context) (service, error) {
	pool, err := f.infra.pool(ctx, billingledger.Migrate, pg.Config{
		Schema: billingledger.Schema, Role: billingledger.Role, MaxConns: 12, ApplicationName: billingName})
	if err != nil {
		return nil, err
	}
	cfg := billingledger.DefaultConfig()
	cfg.Pepper = f.pepper
	return billingledger.New(ctx, cfg, billingledger.Deps{
		Log: f.log(billingName), Meters: f.tel.Meters, Clock: clock.System, Random: rand.Reader,
		Bus: f.infra.bus, DB: pool, Catalog: catalogv1.NewCatalogServiceClient(f.peers[catalogName]),
	})
}

func (f *fleet) newSettlement(ctx context.Context) (service, error) {
	pool, err := f.infra.pool(ctx, settlement.Migrate, pg.Config{
		Schema: settlement.Schema, Role: settlement.Role, MaxConns: 4, ApplicationName: settlementName})
	if err != nil {
		return nil, err
	}
	return settlement.New(ctx, settlement.DefaultConfig(), settlement.Deps{
		Log: f.log(settlementName), Meters: f.tel.Meters, Clock: clock.System,
		Bus: f.infra.bus, DB: pool, Accruals: billingv1.NewAccrualServiceClient(f.peers[billingName]),
	})
}

func (f *fleet) newRouter(ctx context.Context) (service, error) {
	return router.New(ctx, router.DefaultConfig(), router.Deps{
		Log: f.log(routerName), Meters: f.tel.Meters, Clock: clock.System, Random: rand.Reader,
		Bus: f.infra.bus, Catalog: catalogv1.NewCatalogServiceClient(f.peers[catalogName]),
		Providers: hubv1.NewProviderDirectoryServiceClient(f.peers[hubName]),
	})
}

func (f *fleet) newHub(ctx context.Context) (service, error) {
	pool, err := f.infra.pool(ctx, providerhub.Migrate, pg.Config{
		Schema: providerhub.Schema, Role: providerhub.Role, MaxConns: 6, ApplicationName: hubName})
	if err != nil {
		return nil, err
	}
	cfg := providerhub.DefaultConfig()
	cfg.HubID = f.cfg.HubID
	cfg.DispatchAddress = f.dispatchAddress()
	cfg.JournalDir = f.dir.Path("journal")
	cfg.Pepper = f.pepper
	hub, err := providerhub.New(ctx, cfg, providerhub.Deps{
		Log: f.log(hubName), Meters: f.tel.Meters, Clock: clock.System, Random: rand.Reader,
		Bus: f.infra.bus, DB: pool,
	})
	if err != nil {
		return nil, err
	}
	f.wsHandler = hub.Handler()
	return hub, nil
}

// dispatchAddress is where Dispatch on this process's hub is answered.
func (f *fleet) dispatchAddress() string {
	if f.cfg.GRPCAddr != "" {
		return f.cfg.GRPCAddr
	}
	return inProcessAddress
}

func (f *fleet) newGateway(ctx context.Context) (service, error) {
	cfg := edgegateway.DefaultConfig()
	cfg.AdminToken = f.admin
	if f.cfg.runs(hubName) {
		cfg.NearHubID = f.cfg.HubID
	}
	gateway, err := edgegateway.New(ctx, cfg, edgegateway.Deps{
		Log: f.log(gatewayName), Meters: f.tel.Meters, Traces: f.tel.Traces, Clock: clock.System, Random: rand.Reader,
		Bus:            f.infra.bus,
		Keys:           billingv1.NewKeyServiceClient(f.peers[billingName]),
		Admission:      billingv1.NewAdmissionServiceClient(f.peers[billingName]),
		Receipts:       billingv1.NewReceiptServiceClient(f.peers[billingName]),
		Accounts:       billingv1.NewAccountAdminServiceClient(f.peers[billingName]),
		Router:         routerv1.NewRouterServiceClient(f.peers[routerName]),
		Catalog:        catalogv1.NewCatalogServiceClient(f.peers[catalogName]),
		PublicCatalog:  catalogv1.NewPublicCatalogServiceClient(f.peers[catalogName]),
		CatalogAdmin:   catalogv1.NewCatalogAdminServiceClient(f.peers[catalogName]),
		ProviderAdmin:  hubv1.NewProviderAdminServiceClient(f.peers[hubName]),
		Reconciliation: settlementv1.NewReconciliationServiceClient(f.peers[settlementName]),
		Hubs:           newHubs(f).client,
	})
	if err != nil {
		return nil, err
	}
	f.httpHandler = gateway.Handler()
	return gateway, nil
}
