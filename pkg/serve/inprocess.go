package serve

import (
	"github.com/fullstorydev/grpchan"
	"github.com/fullstorydev/grpchan/inprocgrpc"
	"google.golang.org/grpc"
)

// InProcess connects services of one process: handlers are called directly,
// with the interceptors that they would have over a socket, and messages are
// copied, so that neither side sees the other's changes.
type InProcess struct {
	channel *inprocgrpc.Channel
	client  grpc.ClientConnInterface
}

// NewInProcess makes a channel without services.
func NewInProcess(in Interceptors) *InProcess {
	channel := new(inprocgrpc.Channel).
		WithServerUnaryInterceptor(in.UnaryServer).
		WithServerStreamInterceptor(in.StreamServer)
	return &InProcess{
		channel: channel,
		client:  grpchan.InterceptClientConn(channel, in.UnaryClient, in.StreamClient),
	}
}

// RegisterService adds a service. All services are added before the first
// call.
func (p *InProcess) RegisterService(desc *grpc.ServiceDesc, impl any) {
	p.channel.RegisterService(desc, impl)
}

// Client is the calling end; generated clients take it as their connection.
func (p *InProcess) Client() grpc.ClientConnInterface { return p.client }
