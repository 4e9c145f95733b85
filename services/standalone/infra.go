package standalone

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"time"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/bus/natsserver"
	"svc.internal/pkg/node"
	"svc.internal/pkg/pg"
	"svc.internal/pkg/pg/pgserver"
	"svc.internal/pkg/serve"
	"svc.internal/pkg/telemetry"
	"svc.internal/services/standalone/console"
	"svc.internal/services/standalone/localdata"
	"svc.internal/services/standalone/logins"
)

// infra is the database and the bus of the services. Close ends them in reverse order.
type infra struct {
	// databaseURL is the administrator's URL.
	databaseURL string
	// databases are the services' databases, each under its own login. It is nil when the
	// one service that keeps tables here has its login from the outside.
	databases map[string]node.Database
	// databaseEnded is closed when a private PostgreSQL has ended; nil when the database
	// is not private.
	databaseEnded <-chan struct{}
	bus           *bus.Conn
	closers       []func() error
}

func (i *infra) onClose(f func() error) { i.closers = append(i.closers, f) }

// Close ends everything that was started, last first.
func (i *infra) Close() error {
	var errs []error
	for n := len(i.closers) - 1; n >= 0; n-- {
		errs = append(errs, i.closers[n]())
	}
	i.closers = nil
	return errors.Join(errs...)
}

// startInfra finds or starts PostgreSQL and NATS.
func startInfra(
	ctx context.Context, cfg Config, dir *localdata.Dir, n *node.Node, tel *telemetry.Telemetry, con *console.Console,
) (*infra, error) {
	i := &infra{}
	if err := i.startPostgres(ctx, cfg, dir, tel.Log, con); err != nil {
		return nil, errors.Join(err, i.Close())
	}
	if err := i.startBus(ctx, cfg, dir, n, con); err != nil {
		return nil, errors.Join(err, i.Close())
	}
	return i, nil
}

func (i *infra) startPostgres(
	ctx context.Context, cfg Config, dir *localdata.Dir, log *slog.Logger, con *console.Console,
) error {
	if len(cfg.keepers()) == 0 {
		return nil
	}
	done := con.Step("PostgreSQL")
	if cfg.DatabaseURL.IsSet() {
		i.databaseURL = cfg.DatabaseURL.Reveal()
		if err := i.useGivenPostgres(ctx, cfg, dir); err != nil {
			return err
		}
		done("the one in DATABASE_URL")
		return nil
	}
	home, err := dir.PostgresHome()
	if err != nil {
		return fmt.Errorf("start PostgreSQL: %w", err)
	}
	cluster, err := pgserver.Start(ctx, pgserver.Config{Dir: home, Durable: true, Log: log, Progress: con.Note})
	if err != nil {
		return fmt.Errorf("start PostgreSQL: %w", err)
	}
	i.databaseURL = cluster.URL()
	i.databaseEnded = cluster.Done()
	i.onClose(cluster.Stop)
	if i.databases, err = logins.Make(ctx, dir, cluster.SocketURL(), "", cfg.keepers()); err != nil {
		return err
	}
	done("a private one in " + home)
	return nil
}

// useGivenPostgres makes a login for each service, if the given account may do that.
// Otherwise that account is the login of the one service that keeps tables here, whose
// schema somebody else migrates.
func (i *infra) useGivenPostgres(ctx context.Context, cfg Config, dir *localdata.Dir) error {
	may, err := pg.MayProvision(ctx, i.databaseURL)
	if err != nil {
		return fmt.Errorf("DATABASE_URL: %w", err)
	}
	keepers := cfg.keepers()
	if !may && len(keepers) == 1 {
		return nil
	}
	if !may {
		return fmt.Errorf("DATABASE_URL: its login may not make a login for each of %s, which keep tables here:"+
			" use one that may create roles, or run each of them as a process of its own", strings.Join(keepers, ", "))
	}
	suffix, err := dir.DatabaseSuffix()
	if err != nil {
		return err
	}
	i.databases, err = logins.Make(ctx, dir, i.databaseURL, suffix, keepers)
	return err
}

func (i *infra) startBus(
	ctx context.Context, cfg Config, dir *localdata.Dir, n *node.Node, con *console.Console,
) error {
	done := con.Step("NATS")
	connect := n.BusConfig()
	connect.Name = "standalone"
	detail := "the one in SVC_NATS_URL"
	if !cfg.NATSURL.IsSet() {
		server, err := startNATS(cfg, dir, n, connect.Log)
		if err != nil {
			return err
		}
		i.onClose(func() error { server.Stop(); return nil })
		connect.InProcess = server // its socket is for other processes
		connect.TLS, connect.Identity = nil, nil
		detail = "inside, streams in " + dir.Path("nats")
	}
	conn, err := bus.Connect(ctx, connect)
	if err != nil {
		return fmt.Errorf("connect to NATS: %w", err)
	}
	i.bus = conn
	i.onClose(func() error {
		drainCtx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		return conn.Drain(drainCtx)
	})
	done(detail)
	return nil
}

// startNATS starts a server that only this process reaches, or, at an address, every
// process that proves to be a service.
func startNATS(settings Config, dir *localdata.Dir, n *node.Node, log *slog.Logger) (*natsserver.Server, error) {
	cfg := natsserver.Config{StoreDir: dir.Path("nats"), Log: log, Private: settings.NATSAddr == ""}
	if !cfg.Private {
		var err error
		if cfg.TLS, err = n.BusServerTLS(); err != nil {
			return nil, fmt.Errorf("SVC_NATS_ADDR: %w", err)
		}
		cfg.Secret = settings.NATSSecret.Reveal()
		host, port, err := net.SplitHostPort(settings.NATSAddr)
		if err != nil {
			return nil, fmt.Errorf("SVC_NATS_ADDR: %w", err)
		}
		cfg.Host = host
		if cfg.Port, err = strconv.Atoi(port); err != nil {
			return nil, fmt.Errorf("SVC_NATS_ADDR: %w", err)
		}
	}
	server, err := natsserver.Start(cfg)
	if err != nil {
		return nil, fmt.Errorf("start NATS: %w", err)
	}
	return server, nil
}

// parts are the parts that must not end before the services.
func (i *infra) parts() []serve.Part {
	if i.databaseEnded == nil {
		return nil
	}
	// Nothing works without it, and only a new start repairs that.
	return []serve.Part{{Name: "PostgreSQL", Run: func(ctx context.Context) error {
		select {
		case <-i.databaseEnded:
			return errors.New("the private server ended; its log is in its folder")
		case <-ctx.Done():
			return nil
		}
	}}}
}
