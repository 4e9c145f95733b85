// Package connection is the agent's end of the provider connection in dialect
// v2 (proto/svc/agent/v2): it dials a hub, registers, serves the requests that
// share the socket, and dials again whenever the connection ends.
//
// Link keeps one session at a time. When its hub drains, another one is made
// beside it (after the time that the hub says), and only when that is registered
// may the old one end, with its last request and warm-up; so the agent is never
// without a hub that would take it. Receipts and news then go over the new one. The
// same is done when the machine has changed, which only a registration tells; then
// the old session takes new requests until the next one is about to register.
//
// Two goroutines serve a session's socket. The reader hands each frame to the
// session and never waits for anyone. The writer takes what is due, control before
// answers, one piece of each answer in turn, and writes a batch with one system
// call. A third keeps time. Each request under way has one goroutine more, which
// reads the engine's answer into a buffer of its stream; when the hub grants no
// credit, the buffer fills and only that engine is not read.
//
// Frames are counted on each stream in both directions. Whatever does not
// belong ends the connection with Error protocol_error, and with it all of its
// requests, after which the agent dials again. Frames on a stream that the
// agent has ended are what crossed its END, and have no effect.
//
// After a connection the agent waits as the hub says, or a random time of up to
// 0.25 s, doubled with each failure to at most 30 s; a connection of a minute
// starts this over. A refused key is tried again after a minute or more. A
// session that a newer one of the same node has replaced comes back after a
// minute, then two, up to sixteen, so that two machines with one node id do not
// cut each other off for ever.
//
// Of each chat request whose answer had content the agent makes a signed receipt
// when it ends, of what was handed to the socket until then, and sends it behind
// all answers until the hub acknowledges it (package workreceipts).
//
// Warm-ups are done one at a time, each model at most once a minute, and are
// answered when the engine has loaded the model or has failed to. One that ends
// with its connection says nothing of the model, and is done anew when asked for.
//
// Bounds: a message is 64 KiB and DATA 16 KiB; credit is 256 KiB a stream and
// 8 MiB a connection each way; an answer waits in at most 64 KiB; request
// bodies are bounded each and together (Config); requests under way are the sum of
// all capacities and 16 more, 4,096 control frames and 16 warm-ups may wait, and 4
// sessions may be about to end.
package connection

import (
	"context"
	"io"
	"log/slog"
	"net"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/config"
	"svc.internal/services/provider-agent/internal/endpoint"
	"svc.internal/services/provider-agent/internal/hardware"
	"svc.internal/services/provider-agent/internal/workreceipts"
)

// Bounds of one session.
const (
	spareStreams = 16
	// outBuffer is how much of an answer waits for credit, in bytes.
	outBuffer = 64 << 10
	maxError  = 1024 // bytes of an explanation
)

// Times of one session.
const (
	handshakeTimeout = 10 * time.Second
	writeTimeout     = 10 * time.Second
	pingInterval     = 15 * time.Second
	// silence is how long nothing at all may come from the hub, which pings
	// every 15 s and answers our pings and heartbeats.
	silence = 45 * time.Second
	// heardTimeout bounds how long a successor waits for the hub to have read that
	// its predecessor drains.
	heardTimeout = 5 * time.Second
	// receiptsInterval is the least pause between frames of receipts.
	receiptsInterval = 100 * time.Millisecond
	// heartbeatDefault holds until the hub has said how often.
	heartbeatDefault = 10 * time.Second
	heartbeatLeast   = time.Second
	maxHeartbeat     = 5 * time.Minute
	// requestDefault and maxRequest bound what OPEN may ask for.
	requestDefault = 10 * time.Minute
	maxRequest     = time.Hour
	// hubFirst is how much longer the agent waits than the hub. The hub ends a
	// request that takes too long, and says CANCEL; were it the agent, the
	// answer would look cut off, which is charged otherwise.
	hubFirst = 5 * time.Second
)

// Config is what a hub is told, and the bounds of the agent's memory.
type Config struct {
	// URL of the endpoint, ws:// or wss://.
	URL string
	Key config.Secret
	// NodeID, NodeName, Region and Version are told at registration.
	NodeID, NodeName, Region, Version string
	// Capabilities are declared at registration; but for chat, only endpoints
	// among them are served.
	Capabilities []string
	// MaxRequestBytes bounds one request's body.
	MaxRequestBytes int64
	// MaxBufferedBytes bounds the bodies of all requests under way; what would
	// exceed it is answered busy.
	MaxBufferedBytes int64
	// DrainTimeout is how long requests may go on once Run is to end.
	DrainTimeout time.Duration
}

// Deps are what a Link works with.
type Deps struct {
	Log    *slog.Logger
	Clock  clock.Clock
	Random io.Reader
	// Offers are the models as they are now. The models and capacities of the
	// first call hold for ever; health and context length may change.
	Offers func() []Offer
	// Changed is signalled when Offers has changed.
	Changed <-chan struct{}
	// Serve answers requests.
	Serve Serve
	// Receipts keeps what was served; nil makes no receipts.
	Receipts *workreceipts.Store
	// Warm loads a model; nil takes no warm-ups, which the capabilities must not
	// declare then.
	Warm Warm
	// Load is how many requests the engines have under way and waiting; nil is
	// what the agent itself has under way.
	Load func() (active, queued int)
	// Hardware is the machine as it is reported at the next registration; nil, or
	// what returns nil, reports nothing.
	Hardware func() *hardware.Report
	// Credential makes what the next registration shows; nil is Config.Key. Its
	// error's text is told to the owner.
	Credential func(ctx context.Context) (Credential, error)
	// Dial opens the network connection; nil is the system's.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Offer is one model that the agent serves.
type Offer struct {
	ModelID string
	// ContextLength in tokens, 0 when not known.
	ContextLength int64
	Quantization  string
	// Capacity is how many requests are taken at once.
	Capacity int
	Healthy  bool
	// EngineModel is what the engine calls the model; empty for ModelID.
	EngineModel string
}

// Request is what a hub wants answered. Body belongs to the request until
// Serve returns.
type Request struct {
	ID       string
	ModelID  string
	Endpoint endpoint.Endpoint
	Stream   bool
	Body     []byte
	// ContentType is the body's media type; empty for JSON. It is printable
	// ASCII.
	ContentType string
	// ModelOffset and ModelLength say where in Body the model's name stands: a
	// JSON string, or in a form the bare text. The range lies within it.
	ModelOffset, ModelLength int
	Traceparent              string
}

// Answer says how a request ended.
type Answer struct {
	// Status is the engine's HTTP status, 0 when it could not be reached.
	Status int
	// Err is nil when the answer ended by itself. Its text is for the
	// provider's and the operator's eyes.
	Err error
}

// Serve answers one request by writing to w, which blocks while the hub grants
// no credit and fails once ctx has ended. It returns when nothing works on the
// request any more.
type Serve func(ctx context.Context, r Request, w io.Writer) Answer
