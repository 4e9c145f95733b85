package dialguard

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"
)

// Kept bounds a client that keeps connections.
type Kept struct {
	// Idle is how many connections to one host are kept, and IdleFor how long.
	Idle    int
	IdleFor time.Duration
	// HeaderBytes bounds the head of an answer.
	HeaderBytes int64
	// Open bounds the connections to all hosts together, and OpenPerHost those to one host; 0 is no
	// bound. Where Open is reached, a request waits as long as a dial may take, and then fails with
	// ErrConnections. Where OpenPerHost is reached, it waits as long as its context allows.
	Open, OpenPerHost int
}

// ErrConnections is the error of a request that got no connection, because the client has as many open
// as it may have. It says nothing of the server.
var ErrConnections = errors.New("the client has no connection left")

// KeepingClient returns an HTTP client that connects by the dialer alone, follows no
// redirects and uses no proxy of the environment, as Client does. It keeps connections,
// and only the caller's context bounds the time to an answer. An address is judged when it
// is dialled. A connection that was dialled stays good, because nobody can move it to
// another address.
func (d *Dialer) KeepingClient(of Kept) *http.Client {
	dial := d.DialContext
	if of.Open > 0 {
		dial = bounded(dial, of.Open)
	}
	return &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext: dial, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: d.Authorities},
			TLSHandshakeTimeout: dialTimeout, MaxResponseHeaderBytes: of.HeaderBytes, DisableCompression: true,
			MaxIdleConnsPerHost: of.Idle, IdleConnTimeout: of.IdleFor, MaxConnsPerHost: of.OpenPerHost,
		},
	}
}

type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// bounded makes dial keep at most so many connections open. A connection that idles keeps its place
// until IdleFor has passed.
func bounded(dial dialFunc, open int) dialFunc {
	places := make(chan struct{}, open)
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		late := time.NewTimer(dialTimeout)
		defer late.Stop()
		select {
		case places <- struct{}{}:
		case <-late.C:
			return nil, ErrConnections
		case <-ctx.Done():
			return nil, ErrConnections
		}
		conn, err := dial(ctx, network, address)
		if err != nil {
			<-places
			return nil, err
		}
		return &placed{Conn: conn, free: sync.OnceFunc(func() { <-places })}, nil
	}
}

// placed is a connection that frees its place when it is closed.
type placed struct {
	net.Conn
	free func()
}

func (p *placed) Close() error {
	defer p.free()
	return p.Conn.Close()
}

// risky are ports from 1024 on. Services listen there that could take a request for a command,
// or that no stranger should reach through this platform: databases, caches, queues, the control
// of containers and clusters, mail, remote desktops and proxies.
var risky = map[uint16]bool{
	1080: true, 1433: true, 1521: true, 1719: true, 1720: true, 1723: true, 2049: true, 2181: true, 2375: true, 2376: true,
	2377: true, 2379: true, 2380: true, 3128: true, 3306: true, 3389: true, 3659: true, 4045: true, 4190: true, 4222: true,
	5060: true, 5061: true, 5432: true, 5433: true, 5672: true, 5900: true, 5984: true, 6000: true, 6379: true, 6380: true,
	6432: true, 6443: true, 6566: true, 6665: true, 6666: true, 6667: true, 6668: true, 6669: true, 6697: true, 7000: true,
	7001: true, 8086: true, 8222: true, 8500: true, 8545: true, 9042: true, 9092: true, 9100: true, 9160: true, 9200: true,
	9300: true, 10080: true, 10250: true, 10255: true, 11211: true, 15672: true, 26379: true, 27017: true, 27018: true,
	50000: true,
}

// ServerPort reports whether a stranger may name a port for an inference server: 443, or a port
// from 1024 on where nothing risky usually listens.
func ServerPort(port uint16) bool { return port == 443 || port >= 1024 && !risky[port] }
