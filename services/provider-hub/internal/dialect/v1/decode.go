package v1

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"svc.internal/pkg/jsonscan"
	"svc.internal/services/provider-hub/internal/session"
)

// warmupPrefix begins the names of warm-ups. Those of requests begin with a UUID.
const warmupPrefix = "warmup-"

// Decode implements dialect.Codec.
func (codec) Decode(msg []byte, in *session.Inbound) error {
	m, err := readEnvelope(msg)
	if err != nil {
		return &session.Malformed{Text: "a message cannot be read: " + err.Error()}
	}
	*in = session.Inbound{Name: plain(m.id), Size: int64(len(msg))}
	switch kind := plain(m.kind); string(kind) {
	case "stream_chunk":
		in.Kind, in.Data, in.Done = session.KindEvent, given(m.chunk), isTrue(m.done)
		return nil
	case "stream_end":
		in.Kind, in.End = session.KindEnd, endOf(&m)
		return nil
	case "ack":
		if bytes.HasPrefix(in.Name, []byte(warmupPrefix)) {
			in.Kind, in.WarmUp = session.KindWarmUp, warmedOf(&m)
			return nil
		}
		in.Kind, in.Data, in.End = session.KindWhole, given(m.response), endOf(&m)
		return nil
	case "verify":
		in.Kind, in.Data, in.Challenge, in.End = session.KindVerified, m.payload, plain(m.challenge), verifiedOf(&m)
		return nil
	case "benchmark_response":
		in.Kind, in.Data, in.Challenge, in.End = session.KindBenchmarked, m.payload, plain(m.benchmark), benchmarkedOf(&m)
		return nil
	}
	if len(msg) > maxNews {
		return &session.Malformed{Text: "a message is too large for what it says"}
	}
	return news(&m, in)
}

// given is a raw value; nil where it is missing or null.
func given(raw []byte) []byte {
	if !present(raw) {
		return nil
	}
	return raw
}

// maxReply bounds a request_id that is repeated to the agent, in bytes.
const maxReply = 256

// news reads messages that are no answers.
func news(m *envelope, in *session.Inbound) error {
	reply := ""
	if len(m.id) <= maxReply {
		reply = text(m.id)
	}
	switch kind := plain(m.kind); string(kind) {
	case "register":
		var r register
		if err := decode(m.payload, &r); err != nil {
			return malformed(reply, err)
		}
		in.Kind, in.Register = session.KindRegister, r.read(reply)
	case "heartbeat", "model_health_update":
		var h heartbeat
		if decode(m.payload, &h) != nil {
			return &session.Malformed{Text: "a message cannot be read"}
		}
		if in.Kind = session.KindHeartbeat; string(kind) != "heartbeat" {
			in.Kind, h = session.KindHealth, heartbeat{models: models{Health: h.Health}}
		}
		in.Heartbeat = h.read(reply)
	case "error":
		in.Kind, in.End = session.KindRefusal, refusalOf(m)
	default: // what later agents may say
		in.Kind = session.KindLater
	}
	return nil
}

func decode(payload []byte, into any) error {
	if payload == nil {
		return errNotEnvelope
	}
	return json.Unmarshal(payload, into)
}

// malformed refuses a malformed registration, and names the member.
func malformed(reply string, err error) error {
	m := &session.Malformed{Text: "the registration cannot be read", Registration: true, Reply: reply}
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) && wrong.Field != "" {
		// encoding/json names the embedded struct too, which no agent knows.
		m.Text += ": " + strings.TrimPrefix(wrong.Field, "models.") + " is of the wrong type"
	}
	return m
}

// warmedOf reads the outcome of a warm-up. A member that cannot be read counts as no
// success, because nothing in the message is worth the connection.
func warmedOf(m *envelope) *session.Warmed {
	ms := min(max(float64(numberOf(m.loadTime)), 0), float64(time.Hour.Milliseconds()))
	return &session.Warmed{
		Success: isTrue(m.success), LoadTime: time.Duration(ms) * time.Millisecond, Error: text(m.failure),
	}
}

// failure stands for an error without a text.
const failure = "the agent reports an error"

// refusalOf reads an agent's refusal of a request. Its code is the agent's own and no
// engine's status, because another provider may well serve the request.
func refusalOf(m *envelope) *session.End {
	what := text(m.message)
	if what == "" {
		what = failure
	}
	return &session.End{Error: what}
}

// errorPrefix begins an engine's error, before its status.
const errorPrefix = "model server returned HTTP "

// busyTexts are the texts of agents without a free slot of their own.
var busyTexts = [...]string{"provider rate limit exceeded", "provider concurrency limit"}

// endOf reads how an answer ended, except for whether it is complete. A status of 502 is the
// agent's own where the text does not begin with errorPrefix: the engine was not reached, or broke
// off. Such a status is not reported as the engine's, as in dialect v2.
func endOf(m *envelope) *session.End {
	message, status, engines := text(m.failure), 0, false
	failed := present(m.failure) && string(m.failure) != `""`
	if rest, ok := strings.CutPrefix(message, errorPrefix); ok {
		if number, what, ok := strings.Cut(rest, ": "); ok {
			if n, err := strconv.Atoi(number); err == nil {
				message, status, engines = what, n, true
			}
		}
	}
	if n, err := jsonscan.Int(m.status); err == nil && n > 0 && n < 1000 {
		status = int(n)
	}
	if failed && message == "" {
		message = failure
	}
	if status == 0 && message == "" {
		status = 200
	}
	if status == 502 && failed && !engines {
		status = 0
	}
	end := &session.End{Status: status, Error: message}
	for _, busy := range busyTexts {
		end.Busy = end.Busy || status == 429 && strings.HasPrefix(message, busy)
	}
	return end
}

// verifiedOf reads whether an agent could do what verify asked for. An agent that could
// not has no response.
func verifiedOf(m *envelope) *session.End {
	return &session.End{Complete: isTrue(m.success) || present(m.response), Error: text(m.failure)}
}

// benchmarkedOf reads whether an agent could do what benchmark asked for. An agent that
// could not has an error and no results.
func benchmarkedOf(m *envelope) *session.End {
	what := text(m.failure)
	none := !present(m.results) || string(m.results) == "[]"
	return &session.End{Complete: what == "" || !none, Error: what}
}
