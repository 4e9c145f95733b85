// Package guard keeps consumers' requests from making an engine do two things: act on
// members that change the engine itself, and fetch addresses from within its owner's
// network.
//
// Pictures and other media that a message names by http or https are fetched by the
// agent, through a dialer that connects to public addresses only, and passed on as data
// URLs. Redirects are not followed. A request that cannot be served in this way is
// refused: with 400 where no provider could serve it, and with 501 (Not Implemented)
// where another one may. Hubs take 501 for "not supported here" and for no failure.
//
// Limits: 16 media of a request, 8 MiB each and together, 10 s for all; 64 MiB of media
// held by all requests under way, beyond which a request is answered 429. Only bytes that
// have arrived are held, so small or slow files keep nobody out.
package guard

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"svc.internal/pkg/dialguard"
	"svc.internal/pkg/jsonscan"
)

const (
	maxMedia = 16
	maxBytes = 8 << 20
	maxHeld  = 64 << 20
	maxTime  = 10 * time.Second
)

// Members are refused unless the owner says otherwise, because they make the engine
// connect to a peer, run a template or load a file that the request names.
func Members() []string {
	return []string{"kv_transfer_params", "chat_template", "lora_request", "extra_args"}
}

// Refusal says why a request is not passed to the engine. It is an error of HTTP.
type Refusal struct {
	Status  int
	Message string
}

func refuse(status int, format string, args ...any) *Refusal {
	return &Refusal{Status: status, Message: fmt.Sprintf(format, args...)}
}

// JSON is the refusal in the form of an engine's error.
func (r *Refusal) JSON() []byte {
	kind := "invalid_request_error"
	if r.Status != http.StatusBadRequest {
		kind = "not_supported_here"
	}
	text := jsonscan.AppendString([]byte(`{"error":{"message":`), r.Message)
	return append(text, `,"type":"`+kind+`"}}`...)
}

// Guard inspects requests. It is safe for concurrent use.
type Guard struct {
	members []string
	client  *http.Client // nil leaves media to the engine
	check   func(string) error
	held    atomic.Int64
}

// New makes a guard that refuses the members and, with fetch, fetches media from hosts
// that the resolver finds; nil is the system's.
func New(members []string, fetch bool, resolver *net.Resolver) *Guard {
	g := &Guard{members: members, check: dialguard.URL}
	if fetch {
		g.client = (&dialguard.Dialer{Resolver: resolver}).Client()
	}
	return g
}

// Body is a request's body as the engine may have it. ModelOffset is where the model's
// name stands in it. Done must be called once the body is not needed any more.
type Body struct {
	Bytes       []byte
	ModelOffset int
	Done        func()
}

// Look inspects a JSON body and fetches the media that its messages name.
func (g *Guard) Look(ctx context.Context, body []byte, modelOffset int) (Body, *Refusal) {
	same := Body{Bytes: body, ModelOffset: modelOffset, Done: func() {}}
	messages, refusal := g.scan(body)
	if refusal != nil || g.client == nil || !messages.Found() {
		return same, refusal
	}
	named := media(body, messages)
	if len(named) == 0 {
		return same, nil
	}
	if len(named) > maxMedia {
		return same, refuse(http.StatusNotImplemented, "at most %d media can be named by address in a request here", maxMedia)
	}
	return g.inline(ctx, body, modelOffset, named)
}

// scan walks the members of the body. It refuses a body with a listed member that is not
// null, and finds the messages.
func (g *Guard) scan(body []byte) (messages jsonscan.Span, refusal *Refusal) {
	c := jsonscan.NewCursor(body, jsonscan.Options{})
	if c.Kind() != jsonscan.Object {
		return messages, nil // the engine reports the fault
	}
	c.Enter()
	for {
		key, ok := c.NextMember()
		if !ok {
			return messages, nil
		}
		name := string(key.Name(body))
		value := c.Skip()
		switch {
		case slices.Contains(g.members, name) && string(value.Of(body)) != "null":
			return messages, refuse(http.StatusNotImplemented, "%s is not supported by this provider", name)
		case name == "messages":
			messages = value
		}
	}
}

// media are the strings that name media by http or https in the content of messages:
// those below a member whose name ends in "url".
func media(body []byte, messages jsonscan.Span) []jsonscan.Span {
	w := walker{body: body, base: messages.Start, cursor: jsonscan.NewCursor(messages.Of(body), jsonscan.Options{})}
	w.messages()
	return w.found
}

type walker struct {
	body   []byte
	base   int
	cursor jsonscan.Cursor
	found  []jsonscan.Span
}

func (w *walker) name(key jsonscan.Key) string { return string(key.Name(w.body[w.base:])) }

// messages walks the content of each message that has parts.
func (w *walker) messages() {
	c := &w.cursor
	if c.Kind() != jsonscan.Array {
		return
	}
	c.Enter()
	for c.NextElement() {
		if c.Kind() != jsonscan.Object {
			c.Skip()
			continue
		}
		c.Enter()
		for {
			key, ok := c.NextMember()
			if !ok {
				break
			}
			if w.name(key) == "content" && c.Kind() == jsonscan.Array {
				w.value(false)
			} else {
				c.Skip()
			}
		}
	}
}

// value walks a value. url reports that it is below a member with such a name.
func (w *walker) value(url bool) {
	c := &w.cursor
	switch c.Kind() {
	case jsonscan.Object:
		c.Enter()
		for {
			key, ok := c.NextMember()
			if !ok {
				return
			}
			w.value(strings.HasSuffix(strings.ToLower(w.name(key)), "url"))
		}
	case jsonscan.Array:
		c.Enter()
		for c.NextElement() {
			w.value(url)
		}
	case jsonscan.String:
		span := c.Skip()
		span.Start, span.End = span.Start+w.base, span.End+w.base
		if text, err := jsonscan.DecodeString(span.Of(w.body)); url && err == nil && text != "" && !isData(text) {
			w.found = append(w.found, span)
		}
	default:
		c.Skip()
	}
}

func isData(text string) bool {
	return len(text) >= len("data:") && strings.EqualFold(text[:len("data:")], "data:")
}

// inline replaces addresses by the fetched media.
func (g *Guard) inline(ctx context.Context, body []byte, modelOffset int, named []jsonscan.Span) (Body, *Refusal) {
	ctx, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	held := &holding{guard: g}
	out := make([]byte, 0, len(body))
	left, from, offset := maxBytes, 0, modelOffset
	for _, at := range named {
		text, err := jsonscan.DecodeString(at.Of(body))
		if err != nil {
			held.done()
			return Body{}, refuse(http.StatusBadRequest, "an address of a message cannot be read")
		}
		kind, content, refusal := g.fetch(ctx, text, left, held)
		if refusal != nil {
			held.done()
			return Body{}, refusal
		}
		left -= len(content)
		out = append(out, body[from:at.Start]...)
		out = append(out, `"data:`+kind+`;base64,`...)
		out = base64.StdEncoding.AppendEncode(out, content)
		out = append(out, '"')
		from = at.End
		if modelOffset >= at.End {
			offset = modelOffset + len(out) - at.End
		}
	}
	return Body{Bytes: append(out, body[from:]...), ModelOffset: offset, Done: held.done}, nil
}

// holding is the part of all held media that one request holds, in bytes.
type holding struct {
	guard *Guard
	bytes int64
}

func (h *holding) done() { h.guard.held.Add(-h.bytes) }

var errFull = errors.New("too many media are held")

// counted counts bytes as they are read.
type counted struct {
	io.Reader
	held *holding
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.held.bytes += int64(n)
	if c.held.guard.held.Add(int64(n)) > maxHeld {
		return n, errFull
	}
	return n, err
}

// fetch reads one file of at most so many bytes. Its refusals name no address, because
// hubs and consumers read them.
func (g *Guard) fetch(
	ctx context.Context, address string, size int, held *holding,
) (kind string, content []byte, refusal *Refusal) {
	if err := g.check(address); err != nil {
		return "", nil, refuse(http.StatusBadRequest, "an address of a message %s", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return "", nil, refuse(http.StatusBadRequest, "an address of a message cannot be read")
	}
	req.Header.Set("User-Agent", "svc-agent")
	resp, err := g.client.Do(req)
	switch {
	case errors.Is(err, dialguard.ErrPrivate):
		return "", nil, refuse(http.StatusBadRequest, "an address of a message %s", dialguard.ErrPrivate)
	case err != nil:
		return "", nil, refuse(http.StatusNotImplemented, "a file that a message names cannot be reached by this provider")
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return "", nil, refuse(http.StatusBadRequest,
			"a file that a message names is answered with status %d; redirects are not followed", resp.StatusCode)
	}
	content, err = io.ReadAll(counted{io.LimitReader(resp.Body, int64(size)+1), held})
	switch {
	case errors.Is(err, errFull):
		return "", nil, refuse(http.StatusTooManyRequests, "this provider holds too many media at once")
	case err != nil:
		return "", nil, refuse(http.StatusNotImplemented,
			"a file that a message names cannot be read by this provider in time")
	case len(content) > size:
		return "", nil, refuse(http.StatusNotImplemented,
			"files that messages name may have %d bytes in all here: send them as data URLs", maxBytes)
	}
	if kind = mediaType(resp.Header.Get("Content-Type"), content); kind == "" {
		return "", nil, refuse(http.StatusBadRequest, "a file that a message names is neither a picture nor sound nor video")
	}
	return kind, content, nil
}

// mediaType is the declared media type of a file, or else the media type that its content
// looks like. It is empty for a file that is neither a picture nor sound nor video.
func mediaType(said string, content []byte) string {
	for _, text := range []string{said, http.DetectContentType(content)} {
		kind, _, err := mime.ParseMediaType(text)
		if err != nil || strings.ContainsFunc(kind, unusual) {
			continue
		}
		for _, class := range []string{"image/", "audio/", "video/"} {
			if strings.HasPrefix(kind, class) {
				return kind
			}
		}
	}
	return ""
}

// unusual reports whether a character may not stand in a data URL's media type.
func unusual(r rune) bool {
	return (r < 'a' || r > 'z') && (r < '0' || r > '9') && !strings.ContainsRune("/.+-", r)
}
