package main

import (
	"context"
	"net"
	"net/http"
	"testing"
	"time"
)

func TestItServesTheModelUntilItIsStopped(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := lis.Addr().String()
	if err := lis.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, []string{"-addr", addr}) }()
	deadline := time.After(2 * time.Minute)
	for {
		resp, err := http.Get("http://" + addr + "/v1/models") //nolint:noctx // bounded by the deadline
		if err == nil {
			if err := resp.Body.Close(); err != nil {
				t.Errorf("got the error %v, want none", err)
			} else if resp.StatusCode != http.StatusOK {
				t.Errorf("resp.StatusCode: got %d, want 200", resp.StatusCode)
			}
			break
		}
		select {
		case err := <-ended:
			t.Fatalf("it ended with %v", err)
		case <-deadline:
			t.Fatal("it does not serve")
		case <-time.After(20 * time.Millisecond):
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestABadAddressIsRefused(t *testing.T) {
	if err := run(t.Context(), []string{"-addr", "nowhere"}); err == nil {
		t.Error("it listens nowhere")
	}
}
