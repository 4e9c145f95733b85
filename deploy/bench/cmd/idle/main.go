// idle measures what a provider's socket costs the product while it serves nothing. It registers many agents that
// only keep their connection. The first quarter of the agents warms the product up, because what its processes take
// once, the caches of a database's connections for example, is no part of a socket. What the other agents add to the
// product's memory is divided by the number of these agents. idle speaks as much of the provider connection as that
// takes: the first frame and the answer to it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/gorilla/websocket"
	"google.golang.org/protobuf/encoding/protowire"
	"svc.internal/pkg/agentwire"

	"inference-bench/internal/admin"
	"inference-bench/internal/pause"
	"inference-bench/internal/plan"
	"inference-bench/internal/record"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "idle:", err)
		os.Exit(1)
	}
}

const (
	// handshakes is how many sockets are opened in a second: less than the
	// hub lets in.
	handshakes = 150
	// settle is how long the product rests before its memory is read; with
	// the registrations it must stay below the time in which the hub misses
	// a heartbeat, 30 s.
	settle = 2 * time.Second
	// warming is the part of the sockets that warm the product up: one in
	// warming.
	warming = 4
)

func run(ctx context.Context) error {
	pid := flag.Int("pid", 0, "root of the product's processes")
	base := flag.String("admin", os.Getenv("SVC_ADMIN_URL"), "root of the operators' API")
	ws := flag.String("ws", os.Getenv("SVC_WS_URL"), "where agents connect, without /ws")
	providers := flag.Int("providers", 32, "how many providers the sockets belong to")
	each := flag.Int("each", 60, "sockets of a provider; the first quarter warms the product up")
	model := flag.String("model", "mock-t16", "the model that all offer")
	target := flag.String("target", "standalone", "what is measured")
	out := flag.String("out", "results.jsonl", "the record is appended here")
	flag.Parse()
	operator := admin.Client{Base: *base, Token: os.Getenv("SVC_ADMIN_TOKEN")}
	keys := make([]string, 0, *providers)
	for i := range *providers {
		key, err := operator.Provider(ctx, fmt.Sprintf("idle-%d", i))
		if err != nil {
			return fmt.Errorf("make a provider: %w", err)
		}
		keys = append(keys, key)
	}
	group, err := plan.Target{Pids: []int{*pid}, Except: []string{"svc-agent", "tinylm"}}.Group()
	if err != nil {
		return err
	}
	warm := *each / warming
	open, err := register(ctx, *ws+"/ws", keys, 0, warm, *model)
	defer func() { closeAll(open) }()
	if err != nil {
		return err
	}
	if err := pause.For(ctx, settle); err != nil {
		return err
	}
	before := memory(group)
	measured, err := register(ctx, *ws+"/ws", keys, warm, *each, *model)
	defer func() { closeAll(measured) }()
	if err != nil {
		return err
	}
	if err := pause.For(ctx, settle); err != nil {
		return err
	}
	grown := kibEach(before, memory(group), len(measured))
	fmt.Fprintf(os.Stdout, "    %d idle sockets behind %d: %s\n", len(measured), len(open), grown)
	w, err := record.Append(*out)
	if err != nil {
		return err
	}
	return errors.Join(w.Write(record.Record{Target: *target, Measure: "idle_socket_kib", Value: grown.sum()}), w.Close())
}

func closeAll(open []*websocket.Conn) {
	for _, c := range open {
		_ = c.Close()
	}
}

// register opens sockets, one of each provider in turn: the nodes of the numbers from first to before end.
func register(
	ctx context.Context, url string, keys []string, first, end int, model string,
) ([]*websocket.Conn, error) {
	dialer := websocket.Dialer{Subprotocols: []string{agentwire.Subprotocol}, HandshakeTimeout: 10 * time.Second}
	tick := time.NewTicker(time.Second / handshakes)
	defer tick.Stop()
	var open []*websocket.Conn
	for n := first; n < end; n++ {
		for p, key := range keys {
			<-tick.C
			c, _, err := dialer.DialContext(ctx, url, nil)
			if err != nil {
				return open, fmt.Errorf("socket %d of provider %d: %w", n+1, p+1, err)
			}
			open = append(open, c)
			if err := greet(c, key, fmt.Sprintf("idle-node-%d-%d", p, n), model); err != nil {
				return open, fmt.Errorf("socket %d of provider %d: %w", n+1, p+1, err)
			}
		}
	}
	return open, nil
}

// Fields of the provider connection's frames.
const (
	frameSeq, frameRegister, frameRegisterAck, frameError = 2, 3, 4, 13
	registerToken, registerNode, registerModels           = 1, 2, 5
	offerModel, offerHealthy                              = 1, 5
)

// greet registers and waits for the answer.
func greet(c *websocket.Conn, key, node, model string) error {
	if err := c.WriteMessage(websocket.BinaryMessage, registration(key, node, model)); err != nil {
		return err
	}
	if err := c.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return err
	}
	_, frame, err := c.ReadMessage()
	if err != nil {
		return err
	}
	return accepted(frame)
}

func registration(key, node, model string) []byte {
	text := func(b []byte, field protowire.Number, s string) []byte {
		return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), s)
	}
	offer := text(nil, offerModel, model)
	offer = protowire.AppendVarint(protowire.AppendTag(offer, offerHealthy, protowire.VarintType), 1)
	register := text(text(nil, registerToken, key), registerNode, node)
	register = text(register, registerModels, string(offer))
	frame := protowire.AppendVarint(protowire.AppendTag(nil, frameSeq, protowire.VarintType), 1)
	return text(frame, frameRegister, string(register))
}

// accepted says whether a frame accepts the registration, or why not.
func accepted(frame []byte) error {
	for len(frame) > 0 {
		field, kind, n := protowire.ConsumeTag(frame)
		if n < 0 {
			return protowire.ParseError(n)
		}
		frame = frame[n:]
		size := protowire.ConsumeFieldValue(field, kind, frame)
		if size < 0 {
			return protowire.ParseError(size)
		}
		if field == frameRegisterAck {
			return nil
		}
		if field == frameError {
			return fmt.Errorf("the hub refuses: %q", frame[:size])
		}
		frame = frame[size:]
	}
	return errors.New("the hub answers with another frame")
}
