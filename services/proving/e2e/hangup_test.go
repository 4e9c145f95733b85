package e2e

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"svc.internal/pkg/fakeengine"
	"svc.internal/services/proving/internal/trial"
)

// hangUpBound is how soon an engine must notice a hang-up: far sooner than the ten
// seconds after which a gateway writes to a silent client again and would notice by that.
const hangUpBound = 8 * time.Second

// crowd is how many streams there are at once: as many as the provider's slots and the
// key's places. Half of them hang up.
const crowd = 32

func TestThirtyTwoStreamsWithHalfHangingUpLeaveNothingBehind(t *testing.T) {
	trial.Each(t, halfHangsUp, "SVC_DEMO_AGENT=off")
}

func halfHangsUp(t *testing.T, m *trial.Market) {
	const model = "hangup/crowded"
	engine := fakeengine.New(t)
	m.PutModel(t, model)
	gates := gated(engine, model)
	provider := m.JoinWithSlots(t, "crowded", engine.URL, crowd, model)
	account, key := m.Consumer(t, "5")
	m.Admin(t, http.MethodPut, "/api/v1/admin/accounts/"+account+"/limits",
		fmt.Sprintf(`{"requests_per_minute":-1,"concurrent_requests":%d}`, crowd))

	first := openCrowd(t, m, key, model)
	heard := make(chan error, crowd/2)
	ctx, cancel := context.WithTimeout(t.Context(), trial.Patience)
	defer cancel()
	for range crowd / 2 {
		go func() {
			_, err := engine.WaitCancelled(ctx)
			heard <- err
		}()
	}
	left := time.Now()
	for _, s := range first[:crowd/2] {
		s.hangUp()
	}
	for range crowd / 2 {
		if err := <-heard; err != nil {
			t.Fatalf("a hang-up never reached the engine: %v", err)
		}
	}
	if took := time.Since(left); took > hangUpBound {
		t.Errorf("the last hang-up reached the engine after: got %v, want at most %v", took, hangUpBound)
	}
	for _, gate := range gates {
		close(gate)
	}
	for i, s := range first {
		if i >= crowd/2 {
			s.finish(t)
		}
		receipt := m.Receipt(t, key, s.id)
		switch tokens, _ := receipt["completion_tokens"].(float64); {
		case receipt["status"] != "settled":
			t.Errorf(`stream %d: receipt: receipt["status"]: got %v, want "settled"`, i, receipt["status"])
		case i >= crowd/2 && tokens != words:
			t.Errorf("stream %d: tokens: got %v, want %v, where i >= crowd/2", i, tokens, words)
		case i < crowd/2 && tokens >= words:
			t.Errorf("stream %d: tokens: got %v, want less than %v, where i < crowd/2", i, tokens, words)
		}
	}
	m.NothingHeld(t, account)

	// As many streams again: every slot and every place is free.
	gates = gated(engine, model)
	second := openCrowd(t, m, key, model)
	for _, gate := range gates {
		close(gate)
	}
	for _, s := range second {
		s.finish(t)
	}
	m.NothingHeld(t, account)
	if !m.Offers(t, model, provider.ID) {
		t.Error("the provider is not offered any more")
	}
}

// gated scripts a model so that each stream of a crowd gives one token, and the others
// once its gate is closed.
func gated(engine *fakeengine.Engine, model string) []chan struct{} {
	gates := make([]chan struct{}, crowd)
	behaviours := make([]fakeengine.Behaviour, crowd)
	for i := range gates {
		gates[i] = make(chan struct{}, 1)
		gates[i] <- struct{}{}
		behaviours[i] = fakeengine.Behaviour{Tokens: fakeengine.Words(words), BeforeToken: gates[i]}
	}
	engine.Script(model, behaviours...)
	return gates
}

// opened is a stream of which the first token has come.
type opened struct {
	id     string
	hangUp func()
	lines  *bufio.Scanner
}

// openCrowd opens streams at once and waits until each has its first token.
func openCrowd(t *testing.T, m *trial.Market, key, model string) []*opened {
	t.Helper()
	crowdOf := make([]*opened, crowd)
	errs := make([]error, crowd)
	var wg sync.WaitGroup
	for i := range crowdOf {
		wg.Go(func() { crowdOf[i], errs[i] = open(t, m, key, model) })
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			t.Fatalf("stream %d: %v", i, err)
		}
	}
	return crowdOf
}

func open(t *testing.T, m *trial.Market, key, model string) (*opened, error) {
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.Base()+trial.ChatPath,
		strings.NewReader(trial.Chat(model, `,"stream":true,"max_tokens":64`)))
	if err != nil {
		cancel()
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		cancel()
		return nil, err
	}
	s := &opened{id: resp.Header.Get(trial.RequestIDHeader), lines: bufio.NewScanner(resp.Body), hangUp: func() {
		cancel()
		resp.Body.Close()
	}}
	t.Cleanup(s.hangUp)
	for s.lines.Scan() {
		if strings.Contains(s.lines.Text(), `"content":"the"`) {
			return s, nil
		}
	}
	return nil, fmt.Errorf("%d without a token: %w", resp.StatusCode, s.lines.Err())
}

// finish reads a stream to its proper end.
func (s *opened) finish(t *testing.T) {
	t.Helper()
	last := ""
	for s.lines.Scan() {
		if s.lines.Text() != "" {
			last = s.lines.Text()
		}
	}
	if err := s.lines.Err(); err != nil {
		t.Errorf("stream %s ends: got the error %v, want none", s.id, err)
	} else if last != "data: [DONE]" {
		t.Errorf(`stream %s ends: last: got %q, want "data: [DONE]"`, s.id, last)
	}
}
