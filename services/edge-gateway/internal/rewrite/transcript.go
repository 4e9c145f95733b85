package rewrite

import (
	"strconv"

	"svc.internal/pkg/jsonscan"
)

// transcript is the form of transcriptions: text as it is, JSON, or a stream of events
// whose last event is marked as the last. The last event waits until the transcript is
// billed, and is dropped when it is not.
type transcript struct {
	fitsAlways
	text        bool
	verbose     bool   // it tells its task and its duration
	contentType string // of text
	done        *Event
}

// msPerSecond converts to the unit in which audio is billed, milliseconds.
const msPerSecond = 1000

func (*transcript) Accept(body []byte) ([]byte, bool) { return body, true }

func (t *transcript) Whole(body []byte, billed Usage) (contentType string, out []byte) {
	if t.text {
		return t.contentType, body
	}
	var own []member
	if t.verbose {
		own = []member{{"duration", inSeconds(billed.Prompt)}, {"task", `"transcribe"`}}
	}
	return TypeJSON, withDuration(body, billed, own...)
}

// inSeconds is a number of milliseconds in seconds.
func inSeconds(ms int64) string { return strconv.FormatFloat(float64(ms)/msPerSecond, 'f', -1, 64) }

func (t *transcript) Event(dst []Event, e Event) []Event {
	if t.done != nil {
		dst = append(dst, *t.done) // it was not the last
		t.done = nil
	}
	if hasType(e.JSON, typeDone) {
		done := e
		t.done = &done
		return dst
	}
	return append(dst, e)
}

func (t *transcript) Cut(dst []Event) []Event {
	t.done = nil
	return dst
}

func (t *transcript) End(dst []Event, billed Usage) []Event {
	if t.done != nil {
		dst = append(dst, Event{Name: t.done.Name, JSON: withDuration(t.done.JSON, billed)})
		t.done = nil
	}
	return dst
}

// typeDone is the type of a transcript's last event.
const typeDone = "transcript.text.done"

// withDuration makes the usage what is billed: the length of the audio in whole seconds,
// rounded up. The usage of an engine that reports the same stays as it is. own are the
// members of a transcription whose engine gives none.
func withDuration(body []byte, billed Usage, own ...member) []byte {
	seconds := strconv.FormatInt((billed.Prompt+msPerSecond-1)/msPerSecond, 10)
	usage := member{"usage", `{"type":"duration","seconds":` + seconds + `}`}
	f := newFiller(body)
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
