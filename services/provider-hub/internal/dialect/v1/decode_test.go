package v1

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"svc.internal/pkg/agentwire"
	"svc.internal/services/provider-hub/internal/gpu"
	"svc.internal/services/provider-hub/internal/session"
)

// read decodes a message that can be read.
func read(t testing.TB, msg string) session.Inbound {
	t.Helper()
	in := session.Inbound{Credit: 7} // of the message before
	if err := (codec{}).Decode([]byte(msg), &in); err != nil {
		t.Fatalf("%s: got %v, want it read", msg, err)
	}
	if in.Credit != 0 {
		t.Errorf("%s: got %+v, want all of it set", msg, in)
	}
	return in
}

func TestAnswersAreReadWithTheirEnds(t *testing.T) {
	t.Parallel()
	for msg, want := range map[string]session.Inbound{
		`{"type":"stream_chunk","request_id":"r","payload":{"chunk":{"a":1},"done":false}}`: {
			Kind: session.KindEvent, Data: []byte(`{"a":1}`),
		},
		`{"type":"stream_chunk","request_id":"r","payload":{"chunk":null,"done":true}}`: {
			Kind: session.KindEvent, Done: true,
		},
		`{"type":"stream_chunk","request_id":"r","payload":{}}`: {Kind: session.KindEvent},
		`{"type":"stream_end","request_id":"r","payload":{"error":"x","status_code":503}}`: {
			Kind: session.KindEnd, End: &session.End{Status: 503, Error: "x"},
		},
		`{"type":"stream_end","request_id":"r","payload":{}}`: {
			Kind: session.KindEnd, End: &session.End{Status: 200},
		},
		`{"type":"stream_end","request_id":"r","payload":{"error":"model server returned HTTP 404: gone"}}`: {
			Kind: session.KindEnd, End: &session.End{Status: 404, Error: "gone"},
		},
		`{"type":"stream_end","request_id":"r","payload":{"error":{},"status_code":1000}}`: {
			Kind: session.KindEnd, End: &session.End{Error: failure},
		},
		`{"type":"ack","request_id":"r","payload":{"response":{"b":2}}}`: {
			Kind: session.KindWhole, Data: []byte(`{"b":2}`), End: &session.End{Status: 200},
		},
		`{"type":"ack","request_id":"r","payload":{"response":null,"status_code":429,` +
			`"error":"provider concurrency limit reached"}}`: {
			Kind: session.KindWhole,
			End:  &session.End{Status: 429, Error: "provider concurrency limit reached", Busy: true},
		},
		`{"type":"ack","request_id":"r","payload":{"status_code":503,"error":"provider concurrency limit reached"}}`: {
			Kind: session.KindWhole, End: &session.End{Status: 503, Error: "provider concurrency limit reached"},
		},
		`{"type":"error","request_id":"r","payload":{"code":400,"message":"no"}}`: {
			Kind: session.KindRefusal, End: &session.End{Error: "no"},
		},
		`{"type":"error","request_id":"r","payload":{"code":400}}`: {
			Kind: session.KindRefusal, End: &session.End{Error: failure},
		},
		`{"type":"verify","request_id":"r","payload":{"challenge_id":"c","success":true}}`: {
			Kind: session.KindVerified, Data: []byte(`{"challenge_id":"c","success":true}`), Challenge: []byte("c"),
			End: &session.End{Complete: true},
		},
		`{"type":"verify","request_id":"r","payload":{"success":false,"response":null,"error":"cannot"}}`: {
			Kind: session.KindVerified, Data: []byte(`{"success":false,"response":null,"error":"cannot"}`),
			End: &session.End{Error: "cannot"},
		},
		`{"type":"verify","request_id":"r","payload":{"challenge_id":7,"success":false,"response":{}}}`: {
			Kind: session.KindVerified, Data: []byte(`{"challenge_id":7,"success":false,"response":{}}`),
			End: &session.End{Complete: true},
		},
		`{"type":"verify","request_id":"r","payload":[7]}`: {Kind: session.KindVerified, End: &session.End{}},
		`{"type":"benchmark_response","request_id":"r","payload":{"benchmark_id":"b","results":[]}}`: {
			Kind: session.KindBenchmarked, Data: []byte(`{"benchmark_id":"b","results":[]}`), Challenge: []byte("b"),
			End: &session.End{Complete: true},
		},
		`{"type":"benchmark_response","request_id":"r","payload":{"benchmark_id":"b","results":[],"error":"x"}}`: {
			Kind: session.KindBenchmarked, Data: []byte(`{"benchmark_id":"b","results":[],"error":"x"}`),
			Challenge: []byte("b"), End: &session.End{Error: "x"},
		},
		`{"request_id":"r"}`: {Kind: session.KindLater},
	} {
		want.Name, want.Size = []byte("r"), int64(len(msg))
		if got := read(t, msg); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, want %+v", msg, got, want)
		}
	}
}

func TestAnAckIsOfAWarmUpByItsName(t *testing.T) {
	t.Parallel()
	for more, want := range map[string]session.Warmed{
		`"success":true,"load_time_ms":1500`:      {Success: true, LoadTime: 1500 * time.Millisecond},
		`"success":"yes","load_time_ms":"long"`:   {},
		`"Success":true`:                          {},
		`"success":false,"error":"out of memory"`: {Error: "out of memory"},
		`"success":true,"load_time_ms":1e300`:     {Success: true, LoadTime: time.Hour},
		`"success":true,"load_time_ms":-5`:        {Success: true},
	} {
		in := read(t, `{"type":"ack","request_id":"warmup-1","payload":{`+more+`}}`)
		if in.Kind != session.KindWarmUp || *in.WarmUp != want {
			t.Errorf("%s: got kind %d, %+v, want kind %d, %+v", more, in.Kind, in.WarmUp, session.KindWarmUp, want)
		}
	}
}

func TestARegistrationIsReadAsItCame(t *testing.T) {
	t.Parallel()
	in := read(t, `{"type":"register","request_id":"r-1","payload":{"node_id":"node-0001","node_name":"N","token":"key",`+
		`"owner_addr":"0xab","signature":"0x0102","auth_nonce":"n","models":["a","a","b c","d"],`+
		`"model_hashes":[{"model_id":"a","format":"fp16","quantization":"none","context_length":4096},`+
		`{"model_id":"d","quantization":"q4","context_length":"much"}],"model_health":{"d":"unhealthy","x":"healthy"},`+
		`"hardware":{"gpu_type":"T","gpu_count":2,"vram_gb":23,"serving_engine":"vllm"}}}`)
	want := &session.Register{
		Reply: "r-1", Node: "node-0001", NodeName: "N",
		Credential:   session.Credential{Key: "key", Owner: "0xab", Signature: []byte{1, 2}, Nonce: "n"},
		Capabilities: []string{"chat", "stream", "logprobs"}, MaxRequestBytes: 1<<20 - 1<<10,
		Hardware: &gpu.Report{Type: "T", Count: 2, VRAMGB: 23, Engine: "vllm"},
		Models: session.Models{Replaces: true, List: []session.ModelNews{
			{Offer: session.Offer{Model: "a", Quantization: "fp16", ContextLength: 4096}, Described: true},
			{Offer: session.Offer{Model: "d", Quantization: "q4"}, Described: true, HealthKnown: true},
		}},
	}
	if in.Kind != session.KindRegister || !reflect.DeepEqual(in.Register, want) {
		t.Errorf("got %+v, want %+v", in.Register, want)
	}
}

func TestARegistrationThatIsRefusedSaysWhy(t *testing.T) {
	t.Parallel()
	many := `"models":["m` + strings.Repeat(`","m`, session.MaxModels) + `"]`
	for payload, want := range map[string]session.Register{
		`"token":"k"`: {Fault: &session.Fault{Code: agentwire.CodeProtocolError, Text: "node_id is missing"}},
		`"node_id":"node-0001"`: {
			Node: "node-0001", Fault: &session.Fault{Code: agentwire.CodeInvalidKey, Text: "authentication required"},
		},
		`"provider_id":"node-0001","signature":"0x"`: {Node: "node-0001"},
		`"node_id":"0","token":"k"`:                  {Node: "v1-5feceb66ffc86f38d952786c6d696c79"},
		`"node_id":"node-0001","token":"k",` + many:  {Node: "node-0001", Models: session.Models{TooMany: true}},
	} {
		got := read(t, `{"type":"register","request_id":"r","payload":{`+payload+`}}`).Register
		if got.Node != want.Node || !reflect.DeepEqual(got.Fault, want.Fault) {
			t.Errorf("%.60s: got node %q, %+v, want node %q, %+v", payload, got.Node, got.Fault, want.Node, want.Fault)
		}
		if got.Models.TooMany != want.Models.TooMany {
			t.Errorf("%.60s: got too many models: %v, want %v", payload, got.Models.TooMany, want.Models.TooMany)
		}
	}
}

func TestAHeartbeatSaysOnlyWhatIsInIt(t *testing.T) {
	t.Parallel()
	for payload, want := range map[string]session.Heartbeat{
		`"models":[]`:   {Models: session.Models{Replaces: true, List: []session.ModelNews{}}},
		`"models":null`: {Models: session.Models{List: []session.ModelNews{}}},
		`"metrics":{"active_requests":3,"gpu_0_memory_total_mb":24564,"gpu_1_memory_total_mb":8188,` +
			`"gpu_2_memory_used_mb":1}`: {
			Models: session.Models{List: []session.ModelNews{}}, MemoryMB: 8188, Active: 3, Loaded: true,
		},
		`"model_health":{"m":"degraded"},"model_hashes":[{"model_id":"m","format":"awq"},{"model_id":"m","format":"fp8"}]`: {
			Models: session.Models{List: []session.ModelNews{{
				Offer:     session.Offer{Model: "m", Quantization: "fp8", Healthy: true},
				Described: true, HealthKnown: true,
			}}},
		},
	} {
		want.Reply = "h"
		in := read(t, `{"type":"heartbeat","request_id":"h","payload":{`+payload+`}}`)
		if in.Kind != session.KindHeartbeat || !reflect.DeepEqual(*in.Heartbeat, want) {
			t.Errorf("%s: got %+v, want %+v", payload, *in.Heartbeat, want)
		}
	}
	in := read(t, `{"type":"model_health_update","request_id":"h","payload":{"models":["n"],`+
		`"metrics":{"active_requests":1},"model_health":{"m":"unhealthy"}}}`)
	want := session.Heartbeat{Reply: "h", Models: session.Models{List: []session.ModelNews{
		{Offer: session.Offer{Model: "m"}, HealthKnown: true},
	}}}
	if in.Kind != session.KindHealth || !reflect.DeepEqual(*in.Heartbeat, want) {
		t.Errorf("the health of models: got kind %d, %+v, want %+v and nothing else", in.Kind, *in.Heartbeat, want)
	}
}

func TestWhatCannotBeReadSaysWhy(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("r", maxReply)
	for msg, want := range map[string]session.Malformed{
		`[]`: {Text: "a message cannot be read: " + errNotEnvelope.Error()},
		`{"type":"register","request_id":"r","payload":[]}`: {
			Text: "the registration cannot be read", Registration: true, Reply: "r",
		},
		`{"type":"register","request_id":"` + long + `","payload":{"models":5}}`: {
			Text: "the registration cannot be read: models is of the wrong type", Registration: true,
		},
		`{"type":"register","request_id":"r","payload":{"hardware":{"gpu_type":5}}}`: {
			Text: "the registration cannot be read: hardware.gpu_type is of the wrong type", Registration: true, Reply: "r",
		},
		`{"type":"heartbeat","request_id":"r","payload":{"models":5}}`:           {Text: "a message cannot be read"},
		`{"type":"model_health_update","request_id":"r","payload":{"models":5}}`: {Text: "a message cannot be read"},
		`{"type":"mystery","payload":{"x":"` + strings.Repeat("x", maxNews) + `"}}`: {
			Text: "a message is too large for what it says",
		},
	} {
		var in session.Inbound
		var got *session.Malformed
		if err := (codec{}).Decode([]byte(msg), &in); !errors.As(err, &got) || *got != want {
			t.Errorf("%.80s: got %+v, want %+v", msg, err, want)
		}
	}
}

func TestAPieceOfAnAnswerCostsNoAllocation(t *testing.T) {
	msg := []byte(`{"type":"stream_chunk","request_id":"r","payload":{"request_id":"r","chunk":{"a":[1,2]},"done":false}}`)
	var in session.Inbound
	got := testing.AllocsPerRun(100, func() {
		if err := (codec{}).Decode(msg, &in); err != nil {
			t.Error(err)
		}
	})
	if got != 0 {
		t.Errorf("got %v allocations, want 0", got)
	}
}

func TestTheNameOfAMessageIsInItsBeginning(t *testing.T) {
	t.Parallel()
	for head, want := range map[string]string{
		`{"type":"ack","request_id":"r-1","payload":{"resp`: "r-1",
		`{"payload":{"a":1},"request_id":"r-2"`:             "r-2",
		`{"type":"ack","request_id":"r-`:                    "",
		`{"type":"ack","payload":{"request_id":"r-1"`:       "",
		`{"request_id":5,"x":1`:                             "",
		`[1,`:                                               "",
	} {
		if got := (codec{}).Name([]byte(head)); string(got) != want {
			t.Errorf("%s: got %q, want %q", head, got, want)
		}
	}
}

// FuzzDecode reads messages of any content: it never panics, names and data lie within
// the message, and what comes with a kind is there.
func FuzzDecode(f *testing.F) {
	for _, c := range capturedMessages(f, "agent->hub") {
		f.Add([]byte(c.Frame))
	}
	for n := range 3 {
		f.Add([]byte(`{"type":"ack","request_id":"warmup-` + strconv.Itoa(n) + `","payload":{"success":true}}`))
	}
	f.Fuzz(func(t *testing.T, msg []byte) {
		var in session.Inbound
		before := bytes.Clone(msg)
		err := codec{}.Decode(msg, &in)
		if !bytes.Equal(msg, before) {
			t.Fatalf("got %q, want the message as it was, %q", msg, before)
		}
		var malformed *session.Malformed
		if err != nil {
			if !errors.As(err, &malformed) {
				t.Fatalf("got %T, want %T", err, malformed)
			}
			return
		}
		if in.Size != int64(len(msg)) || !bytes.Contains(msg, in.Name) || !bytes.Contains(msg, in.Data) {
			t.Fatalf("got %+v, want what lies within the message", in)
		}
		if !bytes.Contains(msg, in.Challenge) {
			t.Fatalf("challenge: got %q, want what lies within the message", in.Challenge)
		}
		ends := []session.Kind{session.KindEnd, session.KindWhole, session.KindRefusal, session.KindVerified,
			session.KindBenchmarked}
		if (in.End != nil) != slices.Contains(ends, in.Kind) {
			t.Fatalf("kind: in.End != nil: got %t, want %t", in.End != nil, slices.Contains(ends, in.Kind))
		}
		if (in.Register != nil) != (in.Kind == session.KindRegister) {
			t.Fatalf("kind: in.Register != nil: got %t, want %t", in.Register != nil, in.Kind == session.KindRegister)
		}
		if (in.Heartbeat != nil) != (in.Kind == session.KindHeartbeat || in.Kind == session.KindHealth) {
			t.Fatalf("kind: in.Heartbeat != nil: got %t, want %t", in.Heartbeat != nil,
				in.Kind == session.KindHeartbeat || in.Kind == session.KindHealth)
		}
		if (in.WarmUp != nil) != (in.Kind == session.KindWarmUp) {
			t.Fatalf("kind: in.WarmUp != nil: got %t, want %t", in.WarmUp != nil, in.Kind == session.KindWarmUp)
		}
	})
}

// A message of 1 MiB names 100,000 models, of which a session has 256.
func TestAListOfManyModelsIsCutBeforeItIsNews(t *testing.T) {
	t.Parallel()
	var health strings.Builder
	for i := range 10 * maxMentioned {
		health.WriteString(`"m` + strconv.Itoa(i) + `":"",`)
	}
	in := read(t, `{"type":"model_health_update","request_id":"x","payload":{"model_health":{`+
		health.String()+`"bad id":"unhealthy"}}}`)
	if got := len(in.Heartbeat.Models.List); got != maxMentioned {
		t.Errorf("models: got %d, want %d", got, maxMentioned)
	}
	in = read(t, `{"type":"model_health_update","request_id":"x","payload":{"model_health":{"bad id":"unhealthy"}}}`)
	if got := len(in.Heartbeat.Models.List); got != 0 {
		t.Errorf("models without a valid id: got %d, want 0", got)
	}
}
