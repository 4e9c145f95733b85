package edgegateway

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	"google.golang.org/grpc"

	"svc.internal/pkg/serve"
	billingv1 "svc.internal/proto/svc/billing/v1"
)

// endless writes pieces of a CSV until its reader leaves, and tells of each that is begun.
func endless(stream grpc.ServerStreamingServer[billingv1.ExportUsageResponse], begun chan<- struct{}) error {
	piece := bytes.Repeat([]byte("0123456789abcde\n"), 4<<10)
	for n := int64(1); ; n++ {
		select {
		case begun <- struct{}{}:
		default:
		}
		if err := stream.Send(&billingv1.ExportUsageResponse{Csv: piece, Rows: n}); err != nil {
			return err
		}
	}
}

// sparing is a listener whose connections send little that nobody has read.
type sparing struct{ net.Listener }

func (l sparing) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return conn, conn.(*net.TCPConn).SetWriteBuffer(4 << 10)
}

// The drain time is an hour, so a stop that the reader holds up would not end.
func TestAStopEndsAnExportThatItsReaderDoesNotTake(t *testing.T) {
	f := connectFleet(t, overSockets, func(c *Config) { c.WriteTimeout = time.Hour }).start()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		done <- serve.HTTP(ctx, sparing{lis}, f.svc.Handler(), serve.HTTPConfig{Log: slog.New(slog.DiscardHandler),
			DrainTimeout: time.Hour})
	}()
	conn, err := net.Dial("tcp", lis.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(conn, "GET /api/v1/consumer/usage.csv?model=endless HTTP/1.1\r\nHost: x\r\n%s: %s\r\n\r\n",
		asAnn()[0], asAnn()[1]); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	for range 3 { // the gateway writes the first
		awaited(t, f.pieces)
	}
	stop()
	if err := awaited(t, done); err != nil {
		t.Errorf("the server ended with %v, want no error", err)
	}
	if _, err := io.Copy(io.Discard, resp.Body); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("the reader: got the error %v, want %v", err, io.ErrUnexpectedEOF)
	}
	if got := resp.Trailer.Get("X-Svc-Rows"); got != "" {
		t.Errorf("trailer: got %s rows, want none", got)
	}
}
