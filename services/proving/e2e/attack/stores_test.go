package attack

import (
	"bytes"
	"fmt"
	"mime/multipart"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"svc.internal/pkg/fakeengine"
	"svc.internal/services/proving/internal/trial"
)

// stores are F8 and F17: what one account stores and uses for nothing.
func stores() []Case {
	return []Case{
		{Hole: "F8", Name: "kept_answers_fill_the_disk", Before: "80 MiB of 80 kept", Long: true, Run: fillTheStore},
		{Hole: "F17", Name: "free_rate_by_many_keys", Before: "40 of 48 a minute, 10 for each key", Run: freeRate},
		{Hole: "F17", Name: "concurrency_by_many_keys", Before: "12 at once with a limit of 3", Run: concurrencyByKeys},
	}
}

// fillTheStore keeps answers of a megabyte under keys of their own.
func fillTheStore(t testing.TB, s *stage) Outcome {
	const answers, quota = 80, 64
	id, _, _ := s.served(t, model{window: 1 << 20, maxOutput: 400_000},
		fakeengine.Behaviour{Tokens: []string{strings.Repeat(" quick", 170_000)}, Usage: claimed(7, 170_000)})
	_, key := s.caller(t)
	body := trial.Chat(id, `,"max_tokens":400000`)
	size := 0
	for i := range answers {
		r := s.chat(t, key, body, "Idempotency-Key", fmt.Sprintf("%s-%d", s.name, i))
		if r.status != http.StatusOK {
			t.Fatalf("answer %d: got %d, want 200, with %s", i, r.status, trial.Tail(r.body, 300))
		}
		size = len(r.body)
	}
	kept := 0
	for i := range answers {
		r := s.chat(t, key, body, "Idempotency-Key", fmt.Sprintf("%s-%d", s.name, i))
		switch {
		case r.status == http.StatusOK && r.header.Get("Idempotency-Replayed") == "true":
			kept++
		case r.status != http.StatusUnprocessableEntity || trial.ErrorCode([]byte(r.body)) != "idempotency_answer_gone":
			t.Errorf("the repeat of %d: got %d %s, want the answer or 422 idempotency_answer_gone", i, r.status,
				trial.ErrorCode([]byte(r.body)))
		}
	}
	if kept == 0 || kept*size > quota<<20 {
		t.Errorf("got %d answers of %d bytes kept, want some, and at most %d MiB of an account", kept, size, quota)
	}
	return Outcome{Got: fmt.Sprintf("%d MiB kept of %d", kept*size>>20, answers*size>>20), Paid: "the answers",
		Harm: "the ledger's disk"}
}

// keys makes further keys of an account.
func (s *stage) keys(t testing.TB, account string, n int) []string {
	t.Helper()
	var keys []string
	for range n {
		keys = append(keys, trial.Text(t, s.Admin(t, http.MethodPost, "/api/v1/admin/accounts/"+account+"/keys",
			`{"name":"k"}`), "api_key"))
	}
	return keys
}

func freeRate(t testing.TB, s *stage) Outcome {
	const perMinute, each = 10, 12
	id, _, _ := s.served(t, model{free: true}, fakeengine.Behaviour{})
	account, first := s.Consumer(t, "1")
	served := 0
	for _, key := range append(s.keys(t, account, 3), first) {
		for range each {
			if r := s.chat(t, key, trial.Chat(id, `,"max_tokens":8`)); r.status == http.StatusOK {
				served++
			}
		}
	}
	// A minute may end between them.
	if served == 0 || served > 2*perMinute {
		t.Errorf("got %d requests for nothing by four keys, want %d a minute for the account", served, perMinute)
	}
	return Outcome{Got: fmt.Sprintf("%d of %d", served, 4*each), Paid: "nothing", Harm: "the free models' engines"}
}

func concurrencyByKeys(t testing.TB, s *stage) Outcome {
	const limit, each = 3, 3
	release := make(chan struct{})
	id, engine, _ := s.served(t, model{}, fakeengine.Behaviour{BeforeFirstByte: release})
	account, first := s.Consumer(t, "50")
	s.Admin(t, http.MethodPut, "/api/v1/admin/accounts/"+account+"/limits",
		fmt.Sprintf(`{"requests_per_minute":-1,"concurrent_requests":%d}`, limit))
	var wg sync.WaitGroup
	for _, key := range append(s.keys(t, account, 3), first) {
		for range each {
			wg.Go(func() { s.chat(t, key, trial.Chat(id, `,"max_tokens":8`)) })
		}
	}
	arrived(t, engine, limit)
	pass(t, 2*time.Second)
	together := len(engine.Requests())
	close(release)
	wg.Wait()
	if together > limit {
		t.Errorf("got %d requests at once by four keys, want %d for the account", together, limit)
	}
	return Outcome{Got: fmt.Sprintf("%d at once", together), Paid: "the requests", Harm: "others' places"}
}

// sounds are F9: a file is longer for the engine than for the bill.
func sounds() []Case {
	const amrFrames = 19_650 // of 20 ms each: 393 s
	amr := append([]byte("#!AMR\n"), bytes.Repeat(append([]byte{0x04}, make([]byte, 12)...), amrFrames)...)
	// 12 frames of MPEG 1 layer III at 44.1 kHz and 128 kbit/s, which is 313 ms.
	mp3 := bytes.Repeat(append([]byte{0xff, 0xfb, 0x90, 0x00}, make([]byte, 413)...), 12)
	ask := func(name string, file []byte) func(t testing.TB, s *stage) Outcome {
		return func(t testing.TB, s *stage) Outcome {
			id := "attack/" + s.title()
			s.PutModelOf(t, "audio", id)
			engine := fakeengine.New(t)
			engine.Script(id, fakeengine.Behaviour{})
			s.Join(t, s.title(), engine.URL, id)
			_, key := s.caller(t)
			var form bytes.Buffer
			w := multipart.NewWriter(&form)
			_ = w.WriteField("model", id)
			part, err := w.CreateFormFile("file", name)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = part.Write(file)
			_ = w.Close()
			status, header, body := s.Call(t, http.MethodPost, "/v1/audio/transcriptions", key, form.String(), "Content-Type",
				w.FormDataContentType())
			paid := "nothing"
			if status == http.StatusOK {
				receipt := s.Receipt(t, key, header.Get(trial.RequestIDHeader))
				paid = fmt.Sprintf("%v s", receipt["audio_seconds"])
				t.Errorf("got a file of 393 s more transcribed for %s, want 400", paid)
			} else if status != http.StatusBadRequest || len(engine.Requests()) > 0 {
				t.Errorf("got %d %s, want 400 before the engine", status, body)
			}
			return Outcome{Got: fmt.Sprint(status), Paid: paid, Harm: "the engine's time"}
		}
	}
	return []Case{
		{Hole: "F9", Name: "amr_before_mp3", Before: "393 s for 0.3 s",
			Run: ask("a.mp3", append(bytes.Clone(amr[:60<<10]), mp3...))},
		{Hole: "F9", Name: "amr_behind_mp3", Before: "393 s for 0.3 s",
			Run: ask("a.mp3", append(bytes.Clone(mp3), amr[:250<<10]...))},
		{Hole: "F9", Name: "mp3_behind_wav", Before: "served by the WAV alone",
			Run: ask("a.wav", append(wav(8000, 800), bytes.Repeat(mp3, 100)...))},
		{Hole: "F9", Name: "amr_between_mp3", Before: "served by the MP3 alone",
			Run: ask("a.mp3", append(append(bytes.Clone(mp3), amr[:100<<10]...), mp3...))},
	}
}

// wav is silence of 16 bits, one channel.
func wav(rate, samples int) []byte {
	le32 := func(n int) []byte { return []byte{byte(n), byte(n >> 8), byte(n >> 16), byte(n >> 24)} }
	data := make([]byte, 2*samples)
	var b bytes.Buffer
	b.WriteString("RIFF")
	b.Write(le32(36 + len(data)))
	b.WriteString("WAVEfmt ")
	b.Write(le32(16))
	b.Write([]byte{1, 0, 1, 0})
	b.Write(le32(rate))
	b.Write(le32(2 * rate))
	b.Write([]byte{2, 0, 16, 0})
	b.WriteString("data")
	b.Write(le32(len(data)))
	b.Write(data)
	return b.Bytes()
}
