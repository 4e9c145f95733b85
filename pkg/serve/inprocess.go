package serve

import (
	"fmt"
	"reflect"

	"github.com/fullstorydev/grpchan"
	"github.com/fullstorydev/grpchan/inprocgrpc"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// InProcess connects services of one process. Handlers are called directly, with the
// interceptors that they would have over a socket. Messages are copied, so that neither
// side sees the other's changes.
type InProcess struct {
	channel *inprocgrpc.Channel
	client  grpc.ClientConnInterface
}

// NewInProcess makes a channel without services.
func NewInProcess(in Interceptors) *InProcess {
	channel := new(inprocgrpc.Channel).
		WithCloner(cloner{}).
		WithServerUnaryInterceptor(in.UnaryServer).
		WithServerStreamInterceptor(in.StreamServer)
	return &InProcess{
		channel: channel,
		client:  grpchan.InterceptClientConn(channel, in.UnaryClient, in.StreamClient),
	}
}

// RegisterService adds a service. All services must be added before the first call.
func (p *InProcess) RegisterService(desc *grpc.ServiceDesc, impl any) {
	p.channel.RegisterService(desc, impl)
}

// Client returns the calling end; generated clients take it as their connection.
func (p *InProcess) Client() grpc.ClientConnInterface { return p.client }

// cloner copies each message of a stream once. The channel asks for two copies: a clone
// when the message is sent, and a copy of that clone into the receiver's message. Nobody
// else ever has the clone, so the receiver takes its fields over. The messages of unary
// calls are copied in full, because their senders may still have them.
type cloner struct{}

// passing is a clone on its way through a stream, for one receiver.
type passing struct{ message proto.Message }

// Clone copies a message that is sent into a stream.
func (cloner) Clone(in any) (any, error) {
	m, ok := in.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("a message of type %T cannot be copied", in)
	}
	return &passing{proto.Clone(m)}, nil
}

// Copy fills the receiver's message.
func (cloner) Copy(out, in any) error {
	to, ok := out.(proto.Message)
	if !ok {
		return fmt.Errorf("a message of type %T cannot be received", out)
	}
	switch from := in.(type) {
	case *passing:
		return take(to, from.message)
	case proto.Message:
		if to.ProtoReflect().Descriptor() != from.ProtoReflect().Descriptor() {
			return fmt.Errorf("a message of type %T cannot be received as %T", from, to)
		}
		proto.Reset(to)
		proto.Merge(to, from)
		return nil
	default:
		return fmt.Errorf("a message of type %T cannot be copied", in)
	}
}

// take moves the fields of from to another message of its type.
func take(to, from proto.Message) error {
	source, target := reflect.ValueOf(from), reflect.ValueOf(to)
	if source.Type() != target.Type() || source.Kind() != reflect.Pointer {
		return fmt.Errorf("a message of type %T cannot be received as %T", from, to)
	}
	target.Elem().Set(source.Elem())
	return nil
}
