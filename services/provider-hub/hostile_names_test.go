package providerhub_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode"

	"go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"
	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/fakeagent"
	"svc.internal/pkg/serve"
	hubv1 "svc.internal/proto/svc/hub/v1"
)

// engine answers orders, streamed or whole, with a member "model" that is raw JSON;
// empty for none.
type engine struct {
	order func(stream bool) *hubv1.DispatchOpen
	// answer answers the next request with these events, or with one event as the whole
	// body.
	answer func(stream bool, events ...string)
}

func (e engine) names(w *world, open *hubv1.DispatchOpen, models ...string) result {
	w.t.Helper()
	c := w.call(open)
	var events []string
	for i, model := range models {
		if model != "" {
			model = `"model":` + model + `,`
		}
		finish := "null"
		if i == len(models)-1 {
			finish = `"stop"`
		}
		body := `{` + model +
			`"choices":[{"index":0,"message":{"role":"assistant","content":"Hello"},"finish_reason":"stop"}]}`
		if open.GetStream() {
			body = fmt.Sprintf(`{%s"choices":[{"index":0,"delta":{"content":"Hello"},"finish_reason":%s}]}`, model, finish)
		}
		events = append(events, body)
	}
	e.answer(open.GetStream(), events...)
	end := c.rest()
	if end.finished == nil {
		w.t.Fatalf("%q: finished %v, failed %v, the consumer saw %q: end.finished: got nil, want a value", models,
			end.finished, end.failed, end.texts())
	}
	if strings.Contains(strings.Join(end.texts(), ""), "other") {
		w.t.Fatalf(`%q: finished %v, failed %v, the consumer saw %q: strings.Join(end.texts(), ""): got %q, want it without `+
			`"other"`, models, end.finished, end.failed, end.texts(), strings.Join(end.texts(), ""))
	}
	return end
}

// v2Engine and v1Engine are engines behind agents of the two dialects.
func v2Engine(w *v1World, m member) engine {
	a := w.dial(m, fakeagent.Options{})
	return engine{
		order: func(stream bool) *hubv1.DispatchOpen { return order(m, a, stream) },
		answer: func(stream bool, events ...string) {
			r := received(w.t, a)
			for _, e := range events {
				if !stream {
					must(w.t, r.Data([]byte(e)))
					continue
				}
				must(w.t, r.Event(e))
			}
			if stream {
				must(w.t, r.Done())
			}
			must(w.t, r.End(200, true))
		},
	}
}

func v1Engine(w *v1World, m member) engine {
	a := w.join(m, fakeagent.V1Options{Rate: -1})
	return engine{
		order: func(stream bool) *hubv1.DispatchOpen { return w.order(a, stream) },
		answer: func(stream bool, events ...string) {
			r := a.request()
			if !stream {
				must(w.t, r.Whole(events[0]))
				return
			}
			for _, e := range events {
				must(w.t, r.RawChunk(json.RawMessage(e)))
			}
			must(w.t, r.Done())
			must(w.t, r.End())
		},
	}
}

// answeredAs is what operators are told, and the provider itself.
func (w *world) answeredAs(m member) (operators, own []*hubv1.AnsweredAs) {
	w.t.Helper()
	detail, err := w.hub.admin.GetProviderDetail(w.t.Context(), &hubv1.GetProviderDetailRequest{ProviderId: m.id})
	must(w.t, err)
	interceptors, err := serve.NewInterceptors(w.log, noop.NewMeterProvider(), tracenoop.NewTracerProvider())
	must(w.t, err)
	channel := serve.NewInProcess(interceptors)
	w.hub.service.Register(channel)
	digest := apikey.Sum(m.key)
	status, err := hubv1.NewProviderSelfServiceClient(channel.Client()).GetOwnStatus(w.t.Context(),
		&hubv1.GetOwnStatusRequest{KeyDigest: digest[:]})
	must(w.t, err)
	return detail.GetAnsweredAs(), status.GetAnsweredAs()
}

// An engine that names another model than was asked for is flagged: once for each
// answer, streamed or whole, in either dialect, to operators and its provider.
func TestHostile35_AnEngineThatNamesAnotherModelIsFlagged(t *testing.T) {
	t.Parallel()
	for dialect, connect := range map[string]func(*v1World, member) engine{"v1": v1Engine, "v2": v2Engine} {
		t.Run(dialect, func(t *testing.T) {
			t.Parallel()
			w := setupV1(t)
			m := w.active()
			e := connect(w, m)
			began := time.Now().Add(-time.Second)
			e.names(w.world, e.order(false), `"cheap\u002fother"`)
			w.eventually("it is shown while the hub runs", func() error {
				if _, got := w.answeredAs(m); len(got) != 1 || got[0].GetAnsweredAs() != "cheap/other" {
					return fmt.Errorf("shown is %v", got)
				}
				return nil
			})
			e.names(w.world, e.order(true), `"cheap/other"`, `"dear/other"`, `"cheap/other"`)
			e.names(w.world, e.order(true), "", `"`+testModel+`"`, `"last/other"`)
			w.halt(w.hub)
			got, own := w.answeredAs(m)
			switch {
			case len(got) != 1:
				t.Fatalf("operators are told: len(got): got %d, want 1, in %v", len(got), got)
			case len(own) != 1:
				t.Fatalf("len(own): got %d, want 1, in %v", len(own), own)
			case !proto.Equal(got[0], own[0]):
				t.Fatalf("operators are told: got[0]: got %v, want %v", got[0], own[0])
			}
			n := got[0]
			switch {
			case n.GetModelId() != testModel:
				t.Errorf("shown: n.GetModelId(): got %q, want %q", n.GetModelId(), testModel)
			case n.GetAnsweredAs() != "last/other":
				t.Errorf(`shown: n.GetAnsweredAs(): got %q, want "last/other"`, n.GetAnsweredAs())
			case n.GetAnswers() != 3:
				t.Errorf("shown: n.GetAnswers(): got %d, want 3", n.GetAnswers())
			case n.GetFirstAt().AsTime().Before(began):
				t.Error("shown: n.GetFirstAt().AsTime().Before(…): got true, want false")
			case n.GetLastAt().AsTime().Before(n.GetFirstAt().AsTime()):
				t.Error("shown: n.GetLastAt().AsTime().Before(…): got true, want false")
			}
			for _, want := range []string{testModel, `"last/other"`, "name another model: 3 since 20",
				"costs neither requests nor earnings", "correct which model"} {
				if !strings.Contains(n.GetMeaning(), want) {
					t.Errorf("%q in the meaning: got %q, want %q in it", want, n.GetMeaning(), want)
				}
			}
			status, err := w.hub.directory.GetProvider(t.Context(), &hubv1.GetProviderRequest{ProviderId: m.id})
			if err != nil {
				t.Errorf("got the error %v, want none", err)
			} else if status.GetProvider().GetStatus() != hubv1.ProviderStatus_PROVIDER_STATUS_ACTIVE {
				t.Errorf("status.GetProvider().GetStatus(): got %v, want %v", status.GetProvider().GetStatus(),
					hubv1.ProviderStatus_PROVIDER_STATUS_ACTIVE)
			}
		})
	}
}

// What the body asked for, the catalog's name, and no name at all are never flagged.
func TestHostile35_NamesThatAgreeAreNeverFlagged(t *testing.T) {
	t.Parallel()
	for dialect, connect := range map[string]func(*v1World, member) engine{"v1": v1Engine, "v2": v2Engine} {
		t.Run(dialect, func(t *testing.T) {
			t.Parallel()
			w := setupV1(t)
			m := w.active()
			e := connect(w, m)
			const alias = "tiny"
			for _, stream := range []bool{true, false} {
				for _, model := range []string{
					"", "null", "7", `{"name":"x"}`, `""`, `" "`, `"\u0000"`, `"` + testModel + `"`, `"acme\/tiny-1b"`,
					`"\u0061cme/tiny-1b"`,
				} {
					e.names(w.world, e.order(stream), model)
				}
				for _, model := range []string{`"` + alias + `"`, `"t\u0069ny"`, `"` + testModel + `"`} {
					open := e.order(stream)
					open.Body = []byte(strings.Replace(string(open.GetBody()), testModel, alias, 1))
					open.ModelLength = uint32(len(alias) + 2)
					e.names(w.world, open, model)
				}
			}
			w.halt(w.hub)
			if got, own := w.answeredAs(m); len(got) != 0 {
				t.Errorf("operators are told: len(got): got %d, want 0, in %v", len(got), got)
			} else if len(own) != 0 {
				t.Errorf("len(own): got %d, want 0, in %v", len(own), own)
			}
			var rows int
			must(t, w.db.QueryRow(t.Context(), `SELECT count(*) FROM answered_as`).Scan(&rows))
			if rows != 0 {
				t.Errorf("rows: got %d, want 0", rows)
			}
		})
	}
}

// What engines say of themselves is shown as bounded, printable text.
func TestHostile35_WhatEnginesCallModelsIsCleaned(t *testing.T) {
	t.Parallel()
	w := setupV1(t)
	m := w.active()
	e := v2Engine(w, m)
	for _, model := range []string{
		strings.Repeat("x", 100_000), "<img src=x onerror=alert(1)>\x1b[31m", "=cmd|' /C calc'!A0\x00", "\u202egnp.exe\nline",
		strings.Repeat("é", 5000),
	} {
		raw, err := json.Marshal(model)
		must(t, err)
		e.names(w.world, e.order(false), string(raw))
	}
	w.halt(w.hub)
	got, _ := w.answeredAs(m)
	switch {
	case len(got) != 1:
		t.Fatalf("shown: len(got): got %d, want 1, in %v", len(got), got)
	case got[0].GetAnswers() != 5:
		t.Fatalf("shown: got[0].GetAnswers(): got %d, want 5", got[0].GetAnswers())
	case len([]rune(got[0].GetAnsweredAs())) != 200:
		t.Fatalf("shown: len([]rune(got[0].GetAnsweredAs())): got %d, want 200", len([]rune(got[0].GetAnsweredAs())))
	}
	for _, text := range []string{got[0].GetAnsweredAs(), got[0].GetMeaning()} {
		if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("shown is %q", text)
		}
	}
}
