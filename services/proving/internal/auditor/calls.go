package auditor

import (
	"encoding/json"
	"fmt"
	"io"
)

// call is one HTTP call, as its client saw it.
type call struct {
	nonce           string
	account         id
	model           string
	sentAt, endedAt int64
	status          int64
	request         id
	// received are the tokens of content that came. bytes is the length of everything of
	// value, including tool calls and embeddings.
	received, bytes         int64
	complete, errored, left bool
	usage                   *tokens
	// requests are the requests that the call belongs to, by its own record or by an
	// engine's.
	requests []id
}

// engineCall is an engine's answer to one request.
type engineCall struct {
	provider id
	model    string
	// tokens are the engine's own count: of the prompt, and of the tokens that it sent.
	tokens   tokens
	status   int64
	complete bool
	// silent reports that the engine sent no usage that could be billed.
	silent bool
}

// readClients reads the records of clients. The last line of an export may end the file,
// and is then checked.
func (w *world) readClients(from io.Reader) error {
	l := newLines(from)
	return l.each(false, func(r *record) error {
		c := &call{
			nonce: r.text("nonce"), account: r.id("account_id"), model: w.once(r.text("model")),
			sentAt: r.time("sent_at"), endedAt: r.time("ended_at"), status: r.count("status"), request: r.idOr("request_id"),
			received: r.count("content_tokens"), bytes: r.count("content_bytes"),
			complete: r.flag("complete"), errored: r.flag("error_event"), left: r.flag("left"),
		}
		if _, ok := r.given("usage"); ok {
			u := r.object(l, "usage")
			c.usage = &tokens{prompt: u.count("prompt_tokens"), completion: u.count("completion_tokens")}
			if r.err == nil {
				r.err = u.err
			}
		}
		if c.nonce == "" {
			r.fail("nonce", "is empty")
		}
		if c.received > c.bytes {
			r.fail("content_tokens", "are more than the bytes")
		}
		put(w, r, w.nonces, c.nonce, c)
		w.calls = append(w.calls, c)
		return nil
	})
}

// readEngines reads the records of engines.
func (w *world) readEngines(from io.Reader) error {
	l := newLines(from)
	return l.each(false, func(r *record) error {
		e := engineCall{
			provider: r.idOr("provider_id"), model: w.once(r.text("model")),
			tokens: tokens{prompt: r.count("prompt_tokens"), completion: r.count("completion_tokens")},
			status: r.count("status"), complete: r.flag("complete"), silent: r.flagOr("no_usage"),
		}
		e.complete = e.complete && e.status < 300 // a refusal is no answer
		if e.provider.zero() {
			e.provider = w.setup.engines[r.text("engine")]
		}
		nonce, u := r.textOr("nonce"), r.idOr("request_id")
		r.time("at")
		if u.zero() && nonce == "" {
			r.fail("nonce", "is empty, and so is the request id")
		}
		if r.err != nil {
			return nil
		}
		if u.zero() {
			return w.keepUnnamed(nonce, e)
		}
		q := w.request(r, u)
		if len(q.engines) >= maxMembers {
			return errTooMany
		}
		q.engines = append(q.engines, e)
		if nonce != "" && len(w.served[nonce]) < maxMembers {
			w.served[nonce] = append(w.served[nonce], u)
		}
		return nil
	})
}

// keepUnnamed keeps the answer of an engine that did not know the request, until the
// client's record names it.
func (w *world) keepUnnamed(nonce string, e engineCall) error {
	if len(w.unnamed) >= w.max || len(w.unnamed[nonce]) >= maxMembers {
		return errTooMany
	}
	w.unnamed[nonce] = append(w.unnamed[nonce], e)
	return nil
}

// setup is the harness's description of the fleet. All of it is optional.
type setup struct {
	accounts map[id]allowance
	rates    map[string][]rates
	engines  map[string]id
}

// allowance is what an account was given. A limit of 0 is not known, and one of -1 is
// none.
type allowance struct {
	Account            string `json:"account_id"`
	Granted            *int64 `json:"granted_nano"`
	RequestsPerMinute  int64  `json:"requests_per_minute"`
	ConcurrentRequests int64  `json:"concurrent_requests"`
}

// maxSetup bounds the setup, in bytes.
const maxSetup = 64 << 20

func (w *world) readSetup(from io.Reader) error {
	text, err := io.ReadAll(io.LimitReader(from, maxSetup+1))
	if err != nil {
		return fmt.Errorf("read: %w", err)
	}
	if len(text) > maxSetup {
		return errTooLong
	}
	var file struct {
		Setup    bool        `json:"setup"`
		Accounts []allowance `json:"accounts"`
		Models   []struct {
			Model        string `json:"model"`
			Unit         int64  `json:"unit"`
			Input        int64  `json:"input_rate"`
			Output       int64  `json:"output_rate"`
			PayoutInput  int64  `json:"payout_input_rate"`
			PayoutOutput int64  `json:"payout_output_rate"`
		} `json:"models"`
		Providers []struct {
			Provider string `json:"provider_id"`
			Engine   string `json:"engine"`
		} `json:"providers"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return fmt.Errorf("decode: %w", err)
	}
	if !file.Setup {
		return fmt.Errorf("%w: \"setup\" is not true", errNotObject)
	}
	w.setup = setup{accounts: map[id]allowance{}, rates: map[string][]rates{}, engines: map[string]id{}}
	for _, a := range file.Accounts {
		u, ok := parseID(a.Account)
		if !ok {
			return fmt.Errorf("account %q is no UUID", a.Account)
		}
		w.setup.accounts[u] = a
	}
	for _, m := range file.Models {
		w.setup.rates[m.Model] = append(w.setup.rates[m.Model], rates{m.Unit, m.Input, m.Output, m.PayoutInput,
			m.PayoutOutput})
	}
	for _, p := range file.Providers {
		u, ok := parseID(p.Provider)
		if !ok {
			return fmt.Errorf("provider %q is no UUID", p.Provider)
		}
		w.setup.engines[p.Engine] = u
	}
	return nil
}
