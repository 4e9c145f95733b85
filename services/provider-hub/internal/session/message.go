package session

import (
	"crypto/ed25519"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/workreceipt"
	"svc.internal/services/provider-hub/internal/gpu"
	"svc.internal/services/provider-hub/internal/meter"
)

// Kind is what a message of an agent is about.
type Kind uint8

// The kinds of messages.
const (
	KindRegister Kind = iota + 1
	KindHeartbeat
	// KindHealth is the health of models, which nobody answers (v1).
	KindHealth
	// KindData has bytes of an answer (v2).
	KindData
	// KindEvent has the payload of one server-sent event, the end mark, or both (v1).
	KindEvent
	// KindWhole is an answer that is not streamed, with its end (v1).
	KindWhole
	// KindEnd is the last word on a request.
	KindEnd
	// KindRefusal says that the agent does not serve the request (v1).
	KindRefusal
	// KindReset resets a stream, or reports an error of the connection (v2).
	KindReset
	// KindCredit grants credit, to a stream or to the connection (v2).
	KindCredit
	// KindDrain says that the agent takes nothing new (v2).
	KindDrain
	// KindWarmUp has the outcome of a warm-up.
	KindWarmUp
	// KindReceipts has work receipts (v2).
	KindReceipts
	// KindVerified and KindBenchmarked reply to a task (v1): Challenge, the payload as
	// Data, and End.
	KindVerified
	KindBenchmarked
	// KindDigests replies to a fingerprint: Digests, the reply as JSON as Data, and End (v2).
	KindDigests
	// KindLater is a message that means nothing to this hub, as later agents may send.
	KindLater
	// KindAlien is a frame that only hubs send (v2).
	KindAlien
)

// Inbound is one message of an agent. Name, Data and Challenge alias the message and are
// valid until Receive returns.
type Inbound struct {
	Kind Kind
	// Done reports that the end mark of a stream is in the message (KindEvent).
	Done bool
	// Stream is the frame's stream, Seq its number, and Credit the credit that it
	// grants (v2).
	Stream, Seq, Credit uint32
	// Name is the name of the request that the agent answers; nil for none (v1).
	Name []byte
	// Data is nil where the message has no data.
	Data []byte
	// Challenge is the id of the challenge that a reply names; nil for none (v1).
	Challenge []byte
	// Size is the size of the whole message, in bytes.
	Size int64
	// End comes with KindEnd, KindWhole, KindRefusal and replies to tasks, and is the
	// session's to keep. In v1 the session decides whether an answer is complete.
	End       *End
	Register  *Register
	Heartbeat *Heartbeat // KindHeartbeat, KindHealth
	WarmUp    *Warmed    // without the model in v1
	Digests   *Digests   // KindDigests
	// Receipts are at most one more than agentwire.MaxReceipts, however many came.
	Receipts []Receipt
}

// Register is a registration.
type Register struct {
	// Reply is the name under which the registration is answered (v1).
	Reply string
	// Node is a valid name where Fault is nil. The other texts that the agent says of
	// itself are as they came, and the session cuts them.
	Node, NodeName, AgentVersion, Region string
	Credential                           Credential
	Capabilities                         []string
	MaxRequestBytes                      int64
	ReceiptKey                           ed25519.PublicKey // nil for none
	Hardware                             *gpu.Report
	Models                               Models
	// Refused are models that are not taken, with the reason.
	Refused map[string]string
	// Fault is why a first registration is refused; nil where it is not.
	Fault *Fault
}

// Fault is why a registration is refused.
type Fault struct{ Code, Text string }

// Credential is the credential that an agent shows: a key, or a wallet's signature.
type Credential struct {
	Key string
	// Owner is the wallet's address, and Signature the wallet's signature of the
	// challenge of Nonce.
	Owner     string
	Signature []byte
	Nonce     string
}

// Heartbeat is what an agent says of itself from time to time.
type Heartbeat struct {
	// Reply is the name under which the heartbeat is answered (v1).
	Reply    string
	Models   Models
	Hardware *gpu.Report
	// MemoryMB is the measured memory, which is more exact than Hardware's; 0 where it
	// is not known.
	MemoryMB int64
	// Active and Queued are the load of the engines by the agent's own count.
	// Loaded reports that the heartbeat has them.
	Active, Queued int
	Loaded         bool
}

// Models is what a message says of the models that the agent serves.
type Models struct {
	// TooMany reports that more than MaxModels were named: List is empty.
	TooMany bool
	// Replaces reports that List names every model that the agent serves, each once.
	Replaces bool
	List     []ModelNews
}

// ModelNews is what a message says of one model. Facts that the message does not say stay
// as they were.
type ModelNews struct {
	// Offer always has Model, which is valid in a list that replaces.
	Offer Offer
	// Described reports that Quantization and ContextLength are known. HealthKnown
	// reports that Healthy is known.
	Described, HealthKnown bool
	// Whole reports that Offer takes the place of all that was said before.
	Whole bool
}

// Warmed is an agent's answer to a warm-up.
type Warmed struct {
	Model    string
	Success  bool
	LoadTime time.Duration
	// Error is for operators: printable, at most 1,024 characters.
	Error string
	// NotTried reports that the engine was not asked, so that the failure says nothing
	// of the model.
	NotTried bool
}

// Receipt is a work receipt as it came.
type Receipt struct {
	workreceipt.Signed
	// Malformed reports that the agent sent no valid receipt. Named reports that a
	// malformed receipt still names its attempt. Then only Request and Attempt of Signed
	// are known.
	Malformed, Named bool
}

// Request is what an agent is asked to do.
type Request struct {
	RequestID string
	Attempt   uint32
	Model     string
	// Kind is the kind of the request. Agents must have declared every kind but chat.
	Kind   meter.Kind
	Stream bool
	// Body goes to the agent as it is. It must not change until the stream is
	// closed. ContentType is its media type; empty for JSON.
	Body        []byte
	ContentType string
	// ModelOffset and ModelLength say where in Body the model's name stands.
	ModelOffset uint32
	ModelLength uint32
	Traceparent string
	// Timeout is the time after which the hub gives the request up.
	Timeout time.Duration
	// Proof is the proof that the agent repeats in its receipt; nil for none.
	Proof []byte
	// Challenge marks a request of the verifier; nil for a consumer's.
	Challenge *Challenge
}

// End is the agent's last word on a stream.
type End struct {
	// Status is the engine's HTTP status; 0 where there was no HTTP answer.
	Status   int
	Complete bool
	// Error is for operators: printable, at most 1,024 characters.
	Error string
	Busy  bool
	// RetryAfter is how long the server behind the session asks to be left alone; 0 where it does not
	// ask.
	RetryAfter time.Duration
}

// Identity says whose session a session is. It does not change once the session has
// joined.
type Identity struct {
	ProviderID   ids.ProviderID
	ProviderName string
	KeyID        ids.KeyID
	NodeID       string
	NodeName     string
	AgentVersion string
	Region       string
	Epoch        int64
	// External reports that this hub calls the provider's server. Without it the provider's
	// agent holds a WebSocket. Vendor reports that the provider is a vendor of gateway models.
	External, Vendor bool
}

// Grant is what a credential entitles to.
type Grant struct {
	ProviderID   ids.ProviderID
	ProviderName string
	KeyID        ids.KeyID
	// Status is the provider's status, for the agent to tell its owner. Active reports
	// whether the provider may serve consumers.
	Status string
	Active bool
	Region string
	// Probation and Uptime30d are told to routers. Uptime30d is nil where it is not
	// known.
	Probation bool
	Uptime30d *float64
	// Warning names what the owner should look at; empty for nothing.
	Warning string
	// Epoch is larger than the epoch of any earlier session.
	Epoch int64
	// External and Vendor are those of the session's Identity.
	External, Vendor bool
}

// Acknowledged names a receipt that the agent may forget.
type Acknowledged struct {
	Key workreceipt.Key
	// Refused says in one word why the receipt counts for nothing; empty where it counts.
	Refused string
}

// OutKind is what a message for an agent is about.
type OutKind uint8

// The kinds of messages for agents.
const (
	// OutRegistered answers a registration: Name in v1, Ack.
	OutRegistered OutKind = iota + 1
	// OutHeartbeat answers a heartbeat: Name in v1; the status and the machines of Ack in v2.
	OutHeartbeat
	// OutOpen begins a request: Open, and Length in v2; Name, Model, Provider, Open
	// and the body as Data in v1.
	OutOpen
	// OutData is a piece of a body: Data, Fin (v2).
	OutData
	// OutCredit grants Credit, to a stream or to the connection (v2).
	OutCredit
	// OutCancel asks the agent to give a request up (v2).
	OutCancel
	// OutReset resets a stream: Why (v2).
	OutReset
	// OutDrain says that no new request follows: After (v2).
	OutDrain
	// OutWarmUp asks for a model to be loaded: Model, and Name in v1.
	OutWarmUp
	// OutReceipts names the receipts that the agent may forget: Receipts (v2).
	OutReceipts
	// OutFarewell says why the connection ends: Why, and in v1 the registration's Name.
	OutFarewell
	// OutChallenge puts a task: Model, Open, and Name in v1.
	OutChallenge
)

// Outbound is one message for an agent.
type Outbound struct {
	Kind OutKind
	Fin  bool
	// Stream is the frame's stream, Seq its number, and Credit the credit that it
	// grants (v2).
	Stream, Seq, Credit uint32
	// Length is the length of the whole body of a request, in bytes.
	Length uint32
	// Name is the name of what the message begins or answers (v1).
	Name     string
	Model    string
	Provider ids.ProviderID
	// Data is a body or a piece of a body. It does not change until the stream is closed.
	Data []byte
	// Open does not change; its Body is nil.
	Open     *Request
	Ack      *Ack
	Why      *CloseReason
	Receipts []Acknowledged
	After    time.Duration
}

// Ack answers a registration. The answer to a registration that replaces the models of a
// session (v1) has only the warning of the grant.
type Ack struct {
	Grant             Grant
	HeartbeatInterval time.Duration
	Refused           map[string]string
	// Machines is how many machines of the provider are connected; 0 is not known.
	Machines int
}

// Outbox has what the writer of a socket is to send next.
type Outbox struct {
	Messages []Outbound
	// Ping reports that somebody wants to know whether the agent is there. Answered
	// reports that the agent answered a ping.
	Ping, Answered bool
	// Pong is the answer to the agent's ping where PongDue is set.
	PongDue bool
	Pong    []byte
	// More reports that there is more to send at once.
	More bool
	// Closing is why the connection ends; nil while it stays. With Closing, Messages has
	// the farewell alone, or nothing where the reason is bare.
	Closing *CloseReason
}

// Malformed is the error of a message that cannot be read.
type Malformed struct {
	// Text says what is wrong.
	Text string
	// Registration reports that the message is a registration, which is answered
	// under Reply.
	Registration bool
	Reply        string
}

// Error says what is wrong.
func (m *Malformed) Error() string { return m.Text }
