package rpc

import (
	"context"
	"errors"
	"testing"
)

func TestAPieceThatNobodyTakesEndsWithItsExport(t *testing.T) {
	t.Parallel()
	stopped := errors.New("stopped")
	ctx, stop := context.WithCancelCause(t.Context())
	begun, taken := make(chan struct{}), make(chan struct{})
	defer close(taken)
	send := until(ctx, func([]byte, int64) error {
		close(begun)
		<-taken
		return nil
	})
	ended := make(chan error)
	go func() { ended <- send([]byte("a,b\r\n"), 1) }()
	<-begun
	stop(stopped)
	if err := <-ended; !errors.Is(err, stopped) {
		t.Errorf("got the error %v, want %v", err, stopped)
	}
	if err := send(nil, 2); !errors.Is(err, stopped) { // which would close begun again
		t.Errorf("a further piece: got the error %v, want %v", err, stopped)
	}
}
