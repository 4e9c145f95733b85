package relay

import (
	"bytes"
	"strconv"

	"svc.internal/pkg/jsonscan"
	hubv1 "svc.internal/proto/svc/hub/v1"
)

// transcript is the form of transcriptions: text as it is, JSON, or a stream of
// events whose last says that it is the last. That one waits until the
// transcript is billed, and is not sent when it is not.
type transcript struct {
	text        bool
	verbose     bool   // it tells its task and its duration
	contentType string // of text
	done        *hubv1.DispatchEvent
}

// msPerSecond: what is billed of audio is counted in milliseconds.
const msPerSecond = 1000

func (*transcript) accept(body []byte) ([]byte, bool) { return body, true }

func (t *transcript) whole(body []byte, billed usageOf) (contentType string, out []byte) {
	if t.text {
		return t.contentType, body
	}
	var own []member
	if t.verbose {
		own = []member{{"duration", inSeconds(billed.prompt)}, {"task", `"transcribe"`}}
	}
	return typeJSON, withDuration(body, billed, own...)
}

// inSeconds is a number of milliseconds in seconds.
func inSeconds(ms int64) string { return strconv.FormatFloat(float64(ms)/msPerSecond, 'f', -1, 64) }

func (t *transcript) event(out *output, e *hubv1.DispatchEvent) {
	if t.done != nil {
		out.event(t.done.GetName(), t.done.GetJson()) // it was not the last
		t.done = nil
	}
	if hasType(e.GetJson(), typeDone) {
		t.done = e
		return
	}
	out.event(e.GetName(), e.GetJson())
}

func (t *transcript) cut(*output) { t.done = nil }

func (t *transcript) end(out *output, billed usageOf) {
	if t.done != nil {
		out.event(t.done.GetName(), withDuration(t.done.GetJson(), billed))
		t.done = nil
	}
}

// typeDone is the type of a transcript's last event.
const typeDone = "transcript.text.done"

// hasType reports whether an event says that it is of a type.
func hasType(json []byte, wanted string) bool {
	if !bytes.Contains(json, []byte(wanted)) {
		return false // which is cheaper than a scan
	}
	for m, err := range jsonscan.New(json, jsonscan.Options{}).Members() {
		if err != nil {
			return false
		}
		if string(m.Key.Name(json)) == "type" {
			return jsonscan.StringIs(m.Value.Of(json), wanted)
		}
	}
	return false
}

// withDuration makes the usage what is billed: the length of the audio in whole
// seconds, rounded up. An engine that says the same keeps its own words. own are
// what a transcription has whose engine gives none.
func withDuration(body []byte, billed usageOf, own ...member) []byte {
	seconds := strconv.FormatInt((billed.prompt+msPerSecond-1)/msPerSecond, 10)
	usage := member{"usage", `{"type":"duration","seconds":` + seconds + `}`}
	f := filler{data: body, cur: jsonscan.New(body, jsonscan.Options{}).Cursor()}
	return f.run(func() {
		f.object(append(own, usage), func(name string) {
			if name != "usage" {
				f.skip(own, name)
				return
			}
			if span := f.cur.Skip(); !f.cur.Failed() && !f.tellsDuration(span, seconds) {
				f.replace(span, usage.value)
			}
		})
	})
}

func (f *filler) tellsDuration(usage jsonscan.Span, seconds string) bool {
	if f.data[usage.Start] != '{' {
		return false
	}
	kind, length := 0, 0
	for m, err := range jsonscan.New(f.data, jsonscan.Options{}).Object(usage) {
		if err != nil {
			return false
		}
		value := m.Value.Of(f.data)
		switch string(m.Key.Name(f.data)) {
		case "type":
			if kind++; !jsonscan.StringIs(value, "duration") {
				return false
			}
		case "seconds":
			if length++; string(value) != seconds {
				return false
			}
		}
	}
	return kind == 1 && length == 1
}
