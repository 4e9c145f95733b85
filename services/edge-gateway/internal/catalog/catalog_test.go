package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/catalogwatch"
	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
	catalogv1 "svc.internal/proto/svc/catalog/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"
)

// source plays one script for each watch.
type source struct {
	catalogv1.CatalogServiceClient
	watches chan []*catalogv1.WatchModelsResponse // nil refuses the watch
}

func (s source) WatchModels(
	ctx context.Context, _ *catalogv1.WatchModelsRequest, _ ...grpc.CallOption,
) (grpc.ServerStreamingClient[catalogv1.WatchModelsResponse], error) {
	select {
	case messages := <-s.watches:
		if messages == nil {
			return nil, errors.New("refused")
		}
		return &watch{left: messages}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

type watch struct {
	grpc.ServerStreamingClient[catalogv1.WatchModelsResponse]
	left []*catalogv1.WatchModelsResponse
}

func (w *watch) Recv() (*catalogv1.WatchModelsResponse, error) {
	if len(w.left) == 0 {
		return nil, errors.New("the stream broke")
	}
	next := w.left[0]
	w.left = w.left[1:]
	return next, nil
}

func models(ids ...string) *catalogv1.WatchModelsResponse {
	out := &catalogv1.WatchModelsResponse{}
	for _, id := range ids {
		out.Models = append(out.Models, &catalogv1.Model{ModelId: id, Slug: id + "-slug", Active: true})
	}
	return out
}

func TestAViewOutlivesItsSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := source{watches: make(chan []*catalogv1.WatchModelsResponse)}
		v := NewView(s, clock.System, slog.New(slog.DiscardHandler))
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); v.Run(ctx) }()
		has := func(name string) bool { _, err := v.Find(name); return err == nil }

		if _, err := v.Find("a"); !fault.Is(err, fault.ServiceUnavailable) {
			t.Errorf("before the first snapshot: got the error %v, want the reason %v", err, fault.ServiceUnavailable)
		} else if v.Ready() == nil {
			t.Error("before the first snapshot: v.Ready(): got no error, want one")
		}
		if _, err := v.List(true, nil); !fault.Is(err, fault.ServiceUnavailable) {
			t.Errorf("before the first snapshot: got the error %v, want the reason %v", err, fault.ServiceUnavailable)
		}
		s.watches <- nil
		s.watches <- []*catalogv1.WatchModelsResponse{models("a"), models("a", "b")}
		synctest.Wait()
		if !has("a") {
			t.Error(`with the second snapshot: has("a"): got false, want true`)
		} else if !has("b-slug") {
			t.Error(`with the second snapshot: has("b-slug"): got false, want true`)
		} else if has("c") {
			t.Error(`with the second snapshot: has("c"): got true, want false`)
		} else if got := v.Ready(); got != nil {
			t.Errorf("with the second snapshot: v.Ready(): got the error %v, want none", got)
		}
		for range 8 {
			s.watches <- nil
		}
		if !has("b") {
			t.Error("an outage made it forget")
		}
		begun := time.Now()
		s.watches <- []*catalogv1.WatchModelsResponse{models("c")}
		if waited := time.Since(begun); waited > catalogwatch.MaxPause {
			t.Errorf("began again: got %v, want at most %v", waited, catalogwatch.MaxPause)
		}
		synctest.Wait()
		if has("b") {
			t.Error(`with the new snapshot: has("b"): got true, want false`)
		} else if !has("c") {
			t.Error(`with the new snapshot: has("c"): got false, want true`)
		}
		stop()
		<-done
	})
}

func TestAModelsFactsAreReadOnce(t *testing.T) {
	s := newSnapshot([]*catalogv1.Model{
		{ModelId: "a", Active: true, Category: catalogv1.Category_CATEGORY_LLM, ContextLength: 100, MaxOutputTokens: 50},
		{ModelId: "b", Active: true, Category: catalogv1.Category_CATEGORY_MULTIMODAL, ContextLength: 100,
			Supply: &catalogv1.Supply{MaxReportedContextLength: 200, OnlineProviders: 1}},
		{ModelId: "e", Active: true, Category: catalogv1.Category_CATEGORY_EMBEDDING, ContextLength: 100},
		{ModelId: "i", Active: true, Category: catalogv1.Category_CATEGORY_IMAGE},
		{ModelId: "t", Active: true, Category: catalogv1.Category_CATEGORY_AUDIO},
		{ModelId: "weird\"\u2028", Slug: "a", Active: true},
	}, nil, time.Unix(0, 0))
	switch a := s.byName["a"]; {
	case a.ID != "a":
		t.Errorf(`a.ID: got %q, want "a"`, a.ID)
	case a.Endpoint != hubv1.Endpoint_ENDPOINT_CHAT:
		t.Errorf("a.Endpoint: got %v, want %v", a.Endpoint, hubv1.Endpoint_ENDPOINT_CHAT)
	case a.ContextLength != 100:
		t.Errorf("a.ContextLength: got %d, want 100", a.ContextLength)
	case a.MaxOutputTokens != 50:
		t.Errorf("a.MaxOutputTokens: got %d, want 50", a.MaxOutputTokens)
	}
	switch b := s.byName["b"]; {
	case b.Endpoint != hubv1.Endpoint_ENDPOINT_CHAT:
		t.Errorf("b.Endpoint: got %v, want %v", b.Endpoint, hubv1.Endpoint_ENDPOINT_CHAT)
	case b.ContextLength != 200:
		t.Errorf("b.ContextLength: got %d, want 200", b.ContextLength)
	case b.MaxOutputTokens != 200:
		t.Errorf("b.MaxOutputTokens: got %d, want 200", b.MaxOutputTokens)
	}
	for id, want := range map[string]hubv1.Endpoint{
		"e": hubv1.Endpoint_ENDPOINT_EMBEDDINGS, "i": hubv1.Endpoint_ENDPOINT_IMAGES,
		"t": hubv1.Endpoint_ENDPOINT_TRANSCRIPTIONS, "weird\"\u2028": hubv1.Endpoint_ENDPOINT_UNSPECIFIED,
	} {
		if got := s.byName[id].Endpoint; got != want {
			t.Errorf("%s is asked: got %v, want %v", id, got, want)
		}
	}
	for _, raw := range [][]byte{s.all, s.callable, s.objects["weird\"\u2028"]} {
		if !json.Valid(raw) {
			t.Errorf("not JSON: %s", raw)
		}
	}
}

func find(s *snapshot, name string) (*Model, error) {
	v := &View{clock: clock.System}
	v.now.Store(s)
	return v.Find(name)
}

// X9: the time of a model comes without a word of the catalog.
func TestAModelLeavesAtItsTimeAndNamesItsSuccessor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leaves := time.Now().Add(time.Hour)
		v := &View{clock: clock.System}
		v.now.Store(newSnapshot([]*catalogv1.Model{
			{ModelId: "acme/old", Slug: "old", Active: true, DeprecatedAt: timestamppb.New(leaves), Successor: "acme/new",
				Supply: &catalogv1.Supply{OnlineProviders: 1}},
			{ModelId: "acme/new", Slug: "new", Active: true, Supply: &catalogv1.Supply{OnlineProviders: 1}},
			{ModelId: "alone", Active: true, DeprecatedAt: timestamppb.New(leaves)},
		}, nil, time.Now()))
		for _, name := range []string{"acme/old", "old", "acme/new", "alone"} {
			if _, err := v.Find(name); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		time.Sleep(time.Hour) //nolint:forbidigo // the bubble's time
		for name, want := range map[string]string{
			"acme/old": `The model "acme/old" left on 2000-01-01. Use "acme/new".`,
			"old":      `The model "old" left on 2000-01-01. Use "acme/new".`,
			"alone":    `The model "alone" left on 2000-01-01.`,
		} {
			_, err := v.Find(name)
			if f, ok := fault.As(err); !ok || f.Reason != fault.ModelNotFound || f.Message != want || f.Param != "model" {
				t.Errorf("%s: got %v, want %s", name, err, want)
			}
			if _, err := v.Object(name); !fault.Is(err, fault.ModelNotFound) {
				t.Errorf("%s is still described: got the error %v, want the reason %v", name, err, fault.ModelNotFound)
			}
		}
		for _, all := range []bool{false, true} {
			list, err := v.List(all, nil)
			switch {
			case err != nil:
				t.Errorf("all %v: got the error %v, want none", all, err)
			case strings.Contains(string(list), "acme/old"):
				t.Errorf(`all %v: list: got %q, want it without "acme/old"`, all, string(list))
			case !strings.Contains(string(list), "acme/new"):
				t.Errorf(`all %v: list: got %q, want "acme/new" in it`, all, string(list))
			}
		}
	})
}

func TestAnUnknownModelIsNamed(t *testing.T) {
	s := newSnapshot(nil, nil, time.Unix(0, 0))
	for name, want := range map[string]string{
		"gpt-9":                  `The model "gpt-9" does not exist.`,
		"a\n\u202e":              `The model "a\n\u202e" does not exist.`,
		strings.Repeat("x", 300): `The model "` + strings.Repeat("x", 128) + `" does not exist.`,
	} {
		_, err := find(s, name)
		if f, ok := fault.As(err); !ok {
			t.Errorf("%q: got the error %v, want a fault", name, err)
		} else if !strings.HasPrefix(f.Message, want) {
			t.Errorf("%q: f.Message: got %q, want the prefix %q", name, f.Message, want)
		}
	}
}

func TestNobodyHasServedAModelThatIsNew(t *testing.T) {
	s := newSnapshot([]*catalogv1.Model{{ModelId: "a", Active: true}}, newSnapshot(nil, nil, time.Unix(100, 0)),
		time.Unix(200, 0))
	if got := s.byName["a"].OfflineSince; !got.Before(time.Unix(100, 0)) || got.IsZero() {
		t.Errorf("got %v, want long ago", got)
	}
}

func TestItIsKnownSinceWhenNobodyServesAModel(t *testing.T) {
	at := func(minute int) time.Time { return time.Unix(0, 0).Add(time.Duration(minute) * time.Minute) }
	model := func(online int32) []*catalogv1.Model {
		return []*catalogv1.Model{{ModelId: "a", Slug: "s", Active: true, Supply: &catalogv1.Supply{OnlineProviders: online}}}
	}
	var s *snapshot
	for i, c := range []struct {
		online int32
		want   time.Time
	}{{0, at(0)}, {0, at(0)}, {1, time.Time{}}, {0, at(3)}, {0, at(3)}} {
		s = newSnapshot(model(c.online), s, at(i))
		if got := s.byName["a"].OfflineSince; !got.Equal(c.want) || s.byName["s"].OfflineSince != got {
			t.Errorf("in minute %d: got %v, want %v", i, got, c.want)
		}
	}
}
