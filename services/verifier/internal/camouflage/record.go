package camouflage

import (
	"bufio"
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
)

// Model is the model that all requests ask for.
const Model = "org/model-8b"

const (
	// maxLine bounds a line of the files, and maxSamples how many a file has.
	maxLine    = 16 << 20
	maxSamples = 10_000
)

// WriteOrders writes orders for the recorder of services/proving/e2e, one a line. Those of
// the official SDK for node have their body as somebody writes it, and those without an SDK
// have their bytes.
func WriteOrders(to io.Writer, orders []Order) error {
	d := rand.New(rand.NewPCG(7, 7)) //nolint:gosec // the same bodies on every run
	e := json.NewEncoder(to)
	for i, o := range orders {
		line := struct {
			Order
			Body json.RawMessage `json:"body,omitempty"`
			Hand []byte          `json:"hand,omitempty"`
		}{Order: o}
		var err error
		switch {
		case o.SDK == raw:
			line.HangUp = false
			line.Hand, err = o.Hand(Model, i)
		case strings.HasPrefix(o.SDK, "openai-") && o.SDK != "openai-go":
			orders := [][]string{curlOrder, nodeOrder, nodeOrder}
			o.Op = "chat" // the driver adds what streams have
			line.Body, err = o.write(Model, orders[d.IntN(len(orders))], ",", ":", "")
		}
		if err == nil {
			err = e.Encode(line)
		}
		if err != nil {
			return fmt.Errorf("write an order: %w", err)
		}
	}
	return nil
}

// nodeOrder is the order of OpenAI's examples for node, with streams at the end.
var nodeOrder = []string{"model", "messages", "max_tokens", "temperature", "top_p", "frequency_penalty",
	"presence_penalty", "seed", "logprobs", "top_logprobs"}

// recorded is a line of the recorder.
type recorded struct {
	SDK    string `json:"sdk"`
	Body   []byte `json:"body"`
	HungUp bool   `json:"hung_up"`
}

// ReadRecorded reads what the recorder wrote.
func ReadRecorded(from io.Reader) ([]Request, error) {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, maxLine)
	var requests []Request
	for lines.Scan() {
		var r recorded
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil || len(requests) == maxSamples {
			return nil, fmt.Errorf("%w: line %d: %w", ErrBody, len(requests)+1, err)
		}
		requests = append(requests, Request{Body: r.Body, HungUp: r.HungUp})
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read recorded requests: %w", err)
	}
	return requests, nil
}

// WriteSamples writes samples as CSV with a line of names, compressed.
func WriteSamples(to io.Writer, samples []Sample) error {
	z := gzip.NewWriter(to)
	b := bufio.NewWriter(z)
	_, _ = b.WriteString(strings.Join(Features(), ",") + "\n")
	for _, s := range samples {
		for i, x := range s {
			if i > 0 {
				_ = b.WriteByte(',')
			}
			_, _ = b.WriteString(strconv.FormatFloat(x, 'g', 6, 64))
		}
		_ = b.WriteByte('\n')
	}
	if err := errors.Join(b.Flush(), z.Close()); err != nil {
		return fmt.Errorf("write samples: %w", err)
	}
	return nil
}

// ErrSamples is the error for a file that WriteSamples did not write.
var ErrSamples = errors.New("not a file of samples")

// ReadSamples reads what WriteSamples wrote.
func ReadSamples(from io.Reader) ([]Sample, error) {
	z, err := gzip.NewReader(from)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSamples, err)
	}
	lines := bufio.NewScanner(z)
	if !lines.Scan() || lines.Text() != strings.Join(Features(), ",") {
		return nil, fmt.Errorf("%w: other features", ErrSamples)
	}
	var samples []Sample
	for lines.Scan() {
		var s Sample
		for field := range strings.SplitSeq(lines.Text(), ",") {
			x, err := strconv.ParseFloat(field, 64)
			if err != nil {
				return nil, fmt.Errorf("%w: %w", ErrSamples, err)
			}
			s = append(s, x)
		}
		if len(s) != len(Features()) || len(samples) == maxSamples {
			return nil, fmt.Errorf("%w: line %d", ErrSamples, len(samples)+1)
		}
		samples = append(samples, s)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSamples, err)
	}
	return samples, nil
}

//go:embed organic.csv.gz
var organic []byte

// Organic returns the recorded samples of consumers.
func Organic() ([]Sample, error) { return ReadSamples(bytes.NewReader(organic)) }
