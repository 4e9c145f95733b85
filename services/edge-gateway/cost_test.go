package edgegateway

import (
	"strings"
	"testing"

	billingv1 "svc.internal/proto/svc/billing/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"
)

// withCost asks for the cost in the usage.
func withCost(body string) string {
	return strings.Replace(body, "{", `{"usage":{"include":true},`, 1)
}

// A client sees the cost that it is charged.
func TestWhatAPlanCoversCostsNothing(t *testing.T) {
	const vector = `{"data":[{"embedding":[1]}],"usage":{"prompt_tokens":9,"total_tokens":9}}`
	for billing, cost := range map[billingv1.BillingType]string{
		billingv1.BillingType_BILLING_TYPE_PLAN: "0.00", billingv1.BillingType_BILLING_TYPE_PAYG: "0.00000315",
	} {
		f := withKinds(t)
		f.billing.payBy(billing)
		resp := f.post(withCost(hello))
		if body := read(t, resp); !strings.Contains(body, `"cost":`+cost+`,`) {
			t.Errorf("%v, whole: got %q, want %q in it", billing, body, `"cost":`+cost+`,`)
		}
		wantHeaders(t, resp.Header, map[string]string{"X-Svc-Cost-Usd": cost})

		f.hub.set(streamAnswer)
		if body := read(t, f.post(withCost(helloStream))); !strings.Contains(body, `"cost":`+cost+`,`) {
			t.Errorf("%v, streamed: got %q, want %q in it", billing, body, `"cost":`+cost+`,`)
		}

		if billing != billingv1.BillingType_BILLING_TYPE_PLAN {
			cost = "0.00000135" // of the prompt alone
		}
		f.hub.set(answering(vector, 9, 0))
		resp = f.send(embeddingsPath, withCost(embedHello))
		if body := read(t, resp); !strings.Contains(body, `"cost":`+cost+`,`) {
			t.Errorf("%v, embeddings: got %q, want %q in it", billing, body, `"cost":`+cost+`,`)
		}
		wantHeaders(t, resp.Header, map[string]string{"X-Svc-Cost-Usd": cost})
	}
}

// The usage of images is the engine's own. The cost is added to it for a client that
// asks. Where there is no usage none is made up.
func TestImagesShowTheirCostWhenAsked(t *testing.T) {
	f := withKinds(t)
	const one = `"data":[{"url":"https://x.org"}]`
	for usage, want := range map[string]string{
		``:                            `{"usage":{"cost":0.0000006},"created":7,` + one + `}`,
		`,"usage":null`:               `{"created":7,` + one + `,"usage":{"cost":0.0000006}}`,
		`,"usage":{"total_tokens":5}`: `{"created":7,` + one + `,"usage":{"cost":0.0000006,"total_tokens":5}}`,
		`,"usage":{"cost":9}`:         `{"created":7,` + one + `,"usage":{"cost":0.0000006}}`,
	} {
		engine := `{"created":7,` + one + usage + `}`
		f.hub.set(answering(engine, 0, 1))
		if got := read(t, f.send(imagesPath, withCost(paintHello))); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", usage, got, want)
		}
		if got := read(t, f.send(imagesPath, paintHello)); got != engine {
			t.Errorf("%s: not asked: got %q, want %q", usage, got, engine)
		}
	}
}

func TestTheLastEventOfImagesShowsTheCostWhenAsked(t *testing.T) {
	f := withKinds(t)
	const partialName, name = "image_generation.partial_image", "image_generation.completed"
	const partial = `{"type":"` + partialName + `","created_at":1,"b64_json":"AA","partial_image_index":0}`
	const completed = `{"type":"` + name + `","created_at":2,"b64_json":"AAAA","usage":{"total_tokens":5}}`
	send := func(p *played, name, json string, first bool) func() error {
		return func() error {
			return p.send(&hubv1.DispatchEvent{Name: name, Json: []byte(json), FirstContent: first, CompletionTokens: 1})
		}
	}
	line := func(name, json string) string {
		if name != "" {
			name = "event: " + name + "\n"
		}
		return name + "data: " + json + "\n\n"
	}
	shown := strings.Replace(completed, `"usage":{`, `"usage":{"cost":0.0000012,`, 1)
	for _, named := range []string{name, ""} {
		f.hub.set(func(p *played) error {
			return p.steps(send(p, partialName, partial, true), p.committed, send(p, named, completed, false),
				send(p, named, completed, false),
				func() error { return p.finish(0, 2) })
		})
		body := strings.Replace(paintHello, "{", `{"stream":true,`, 1)
		start := line(partialName, partial) + line(named, completed)
		if got, want := read(t, f.send(imagesPath, withCost(body))), start+line(named, shown); got != want {
			t.Errorf("named %q: got\n%s\nwant\n%s", named, got, want)
		}
		if got, want := read(t, f.send(imagesPath, body)), start+line(named, completed); got != want {
			t.Errorf("named %q, not asked for: got\n%s\nwant\n%s", named, got, want)
		}
	}
	// What has come is given, also when the stream fails then.
	f.hub.set(func(p *played) error {
		return p.steps(send(p, name, completed, true), p.committed, func() error { return p.fail(upstreamFailed()) })
	})
	got := read(t, f.send(imagesPath, withCost(strings.Replace(paintHello, "{", `{"stream":true,`, 1))))
	if !strings.HasPrefix(got, line(name, completed)+`data: {"error":`) {
		t.Errorf("of a stream that failed: %s", got)
	}
}
