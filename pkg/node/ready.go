package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

const (
	// readyTimeout bounds the question. The process that is asked checks its parts for
	// five seconds at most.
	readyTimeout = 7 * time.Second
	// maxReadyAnswer bounds what is shown of the answer, in bytes.
	maxReadyAnswer = 4 << 10
)

// askReady returns nil when the process whose metrics are at address is ready.
func askReady(ctx context.Context, address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil || port == "0" {
		return fmt.Errorf("admin_addr (SVC_METRICS_ADDR) %q has no port to ask", address)
	}
	if everywhere(address) {
		host = "127.0.0.1"
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	url := "http://" + net.JoinHostPort(host, port) + "/readyz"
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxReadyAnswer))
	err = errors.Join(err, answer.Body.Close())
	if answer.StatusCode != http.StatusOK {
		return errors.Join(fmt.Errorf("%s: %s", answer.Status, strings.TrimSpace(string(text))), err)
	}
	return err
}
