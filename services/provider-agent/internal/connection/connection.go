// Package connection is the agent's end of the provider connection in dialect v2
// (proto/svc/agent/v2). It dials a hub, registers, serves the requests that share the
// socket, and dials again whenever the connection ends.
//
// Link keeps one session at a time. When its hub drains, Link makes another session
// beside it, after the time that the hub gives. Only when that session is registered may
// the old one end, with its last request and warm-up. So the agent is never without a hub
// that would take it. Receipts and heartbeats then go over the new session. Link does the
// same when the machine or what its engines can do has changed, because only a
// registration reports that; then the old session takes new requests until the next one
// is about to register.
//
// Two goroutines serve a session's socket. The reader hands each frame to the session and
// never waits for anyone. The writer takes what is due, control frames before answers and
// one piece of each answer in turn, and writes a batch with one system call. A third
// goroutine keeps time. Each request under way has one goroutine more, which reads the
// engine's answer into a buffer of its stream. When the hub grants no credit, the buffer
// fills, and only that engine is not read.
//
// Frames are numbered on each stream in both directions. A frame that does not belong
// ends the connection with Error protocol_error, and with it all of its requests; then
// the agent dials again. Frames on a stream that the agent has ended crossed its END, and
// have no effect.
//
// After a connection the agent waits as long as the hub asks, or a random time of up to
// 0.25 s, doubled with each failure to at most 30 s. A connection of a minute resets
// this. A refused key is tried again after a minute or more. A session that a newer one
// of the same node has replaced comes back after a minute, then two, up to sixteen, so
// that two machines with one node id do not cut each other off for ever.
//
// For each chat request whose answer had content the agent makes a signed work receipt
// when the request ends. The receipt counts what was handed to the socket until then. The
// agent sends it behind all answers until the hub acknowledges it (package workreceipts).
//
// Warm-ups are done one at a time, each model at most once a minute, and are answered
// when the engine has loaded the model or has failed to. A warm-up that ends with its
// connection says nothing of the model, and is done again when a hub asks for it.
//
// Challenges of the models' files are answered one at a time, over all connections; one
// that comes meanwhile is answered busy. A challenge reads 17 MiB at most, in one
// goroutine, within 30 s, and ends with its connection.
//
// Bounds: a message is 64 KiB and DATA 16 KiB. Credit is 256 KiB a stream and 8 MiB a
// connection each way. An answer waits in at most 64 KiB. Request bodies are bounded each
// and together (Config). Requests under way are the sum of all capacities and 16 more.
// 4,096 control frames and 16 warm-ups may wait, and 4 sessions may be about to end.
package connection

import (
	"context"
	"io"
	"log/slog"
	"net"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/config"
	"svc.internal/pkg/fingerprint"
	"svc.internal/pkg/workreceipt"
	"svc.internal/services/provider-agent/internal/endpoint"
	"svc.internal/services/provider-agent/internal/hardware"
	"svc.internal/services/provider-agent/internal/workreceipts"
)

// Bounds of one session.
const (
	spareStreams = 16
	// outBuffer bounds the part of an answer that waits for credit, in bytes.
	outBuffer = 64 << 10
	maxError  = 1024 // bytes of an explanation
)

// Times of one session.
const (
	handshakeTimeout = 10 * time.Second
	writeTimeout     = 10 * time.Second
	pingInterval     = 15 * time.Second
	// silence is how long the hub may send nothing at all. It pings every 15 s, and
	// answers our pings and heartbeats.
	silence = 45 * time.Second
	// heardTimeout bounds the wait of a successor for the hub to have read that its
	// predecessor drains.
	heardTimeout = 5 * time.Second
	// receiptsInterval is the least pause between frames of receipts.
	receiptsInterval = 100 * time.Millisecond
	// heartbeatDefault holds until the hub has given an interval.
	heartbeatDefault = 10 * time.Second
	heartbeatLeast   = time.Second
	maxHeartbeat     = 5 * time.Minute
	// requestDefault and maxRequest bound the time that OPEN may ask for.
	requestDefault = 10 * time.Minute
	maxRequest     = time.Hour
	// hubFirst is how much longer the agent waits than the hub. The hub ends a request
	// that takes too long, and sends CANCEL. If the agent ended it, the answer would look
	// cut off, which is charged differently.
	hubFirst = 5 * time.Second
)

// Config is what the registration says, and the bounds of the agent's memory.
type Config struct {
	// URL of the endpoint, ws:// or wss://.
	URL string
	Key config.Secret
	// NodeID, NodeName, Region and Version are sent with the registration.
	NodeID, NodeName, Region, Version string
	// Capabilities are declared with the registration. Of the endpoints only chat is
	// served without being declared.
	Capabilities []string
	// MaxRequestBytes bounds one request's body.
	MaxRequestBytes int64
	// MaxBufferedBytes bounds the bodies of all requests under way. A request beyond it
	// is answered busy.
	MaxBufferedBytes int64
	// DrainTimeout is how long requests may take to end once Run's context has ended.
	DrainTimeout time.Duration
}

// Deps are what a Link works with.
type Deps struct {
	Log    *slog.Logger
	Clock  clock.Clock
	Random io.Reader
	// Offers returns the models as they are now. Health and context length may change at any
	// time. Call Reoffer when the models or their capacities have changed.
	Offers func() []Offer
	// Changed is signalled when Offers has changed.
	Changed <-chan struct{}
	// Serve answers requests.
	Serve Serve
	// Receipts keeps the work receipts; nil makes none.
	Receipts *workreceipts.Store
	// Worked, if not nil, is called with each receipt that is made. It must not wait.
	Worked func(workreceipt.Receipt)
	// Warm loads a model. With nil the agent takes no warm-ups, and the capabilities must
	// not declare them.
	Warm Warm
	// Prove answers challenges of the models' files. With nil the agent takes none, and
	// the capabilities must not declare them.
	Prove Prove
	// Features returns the capabilities beside Config.Capabilities, in a fixed order. What
	// it returns may change, because some are known only when an engine has answered. Nil
	// adds none.
	Features func() []string
	// Load is how many requests the engines have under way and waiting. Nil stands for
	// the agent's own requests under way.
	Load func() (active, queued int)
	// Hardware returns the machine for the next registration. Nil, or a function that
	// returns nil, reports nothing.
	Hardware func() *hardware.Report
	// Credential makes the credential of the next registration; nil stands for
	// Config.Key. The owner sees its error's text.
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
	// Engine is the kind of the engine; empty when not known.
	Engine string
	// Revision is that of the model's files; empty when not named.
	Revision string
}

// Request is a hub's request. Body belongs to the request until Serve returns.
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
	// Err is nil when the answer ended by itself. The provider and operators read its
	// text.
	Err error
}

// Serve answers one request by writing to w. A write blocks while the hub grants no
// credit, and fails once ctx has ended. Serve returns when nothing works on the request
// any more.
type Serve func(ctx context.Context, r Request, w io.Writer) Answer

// Prove answers a challenge of the files of a model, which is valid. It returns once ctx
// has ended, and its answer names no path of the machine.
type Prove func(ctx context.Context, modelID string, c fingerprint.Challenge) fingerprint.Result
