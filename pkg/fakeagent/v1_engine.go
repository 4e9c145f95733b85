package fakeagent

import (
	"fmt"
	"strings"
)

// V1Answer is a Handler that answers properly, streamed or whole: pieces of
// content, a usage of 10 prompt tokens and one completion token a piece.
func V1Answer(pieces ...string) func(*V1Request) {
	return func(r *V1Request) {
		if !r.Stream {
			_ = r.Whole(V1Completion(strings.Join(pieces, ""), 10, len(pieces))) // the hub may be gone
			return
		}
		r.script(append(say(pieces), finish, usage(10, int64(len(pieces))), (*V1Request).Done, (*V1Request).End))
	}
}

// V1CutShort is an engine that closes its stream early: the agent ends it
// without an error, and without saying that it is done.
func V1CutShort(pieces ...string) func(*V1Request) {
	return func(r *V1Request) { r.script(append(say(pieces), (*V1Request).End)) }
}

// V1Unfinished is an engine that says [DONE] without a finish_reason.
func V1Unfinished(pieces ...string) func(*V1Request) {
	return func(r *V1Request) { r.script(append(say(pieces), (*V1Request).Done, (*V1Request).End)) }
}

// V1ErrorInside is an engine that sends an error object amid its answer; the
// agent passes it on as any chunk and ends the stream well.
func V1ErrorInside(event string, pieces ...string) func(*V1Request) {
	return func(r *V1Request) {
		r.script(append(say(pieces), func(r *V1Request) error { return r.Chunk(event) }, (*V1Request).Done, (*V1Request).End))
	}
}

// V1Silent is an engine whose lines the agent drops: nothing comes of it, and
// it ends well.
func V1Silent() func(*V1Request) {
	return func(r *V1Request) { r.script([]func(*V1Request) error{(*V1Request).End}) }
}

// V1Fails is an engine that answers with an error status.
func V1Fails(status int, message string) func(*V1Request) {
	return func(r *V1Request) { _ = r.Fail(status, message) } // the hub may be gone
}

// V1Broken is an engine that breaks its connection off amid its answer.
func V1Broken(pieces ...string) func(*V1Request) {
	return func(r *V1Request) { r.script(append(say(pieces), (*V1Request).Break)) }
}

// V1Endless is an engine that talks until the connection or the stream ends,
// as fast as it is read.
func V1Endless(piece string) func(*V1Request) {
	return func(r *V1Request) {
		for r.Text(piece) == nil {
		}
	}
}

// V1Completion is a whole answer, as engines write it.
func V1Completion(text string, prompt, completion int) string {
	return fmt.Sprintf(`{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"engine-model","choices":[`+
		`{"index":0,"message":{"role":"assistant","content":%s},"finish_reason":"stop"}],`+
		`"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}}`, quote(text), prompt, completion,
		prompt+completion)
}

// script takes steps until one fails; then the hub is gone.
func (r *V1Request) script(steps []func(*V1Request) error) {
	for _, step := range steps {
		if step(r) != nil {
			return
		}
	}
}

func say(pieces []string) []func(*V1Request) error {
	steps := []func(*V1Request) error{(*V1Request).Role}
	for _, p := range pieces {
		steps = append(steps, func(r *V1Request) error { return r.Text(p) })
	}
	return steps
}

func finish(r *V1Request) error { return r.Finish("stop") }

func usage(prompt, completion int64) func(*V1Request) error {
	return func(r *V1Request) error { return r.Usage(prompt, completion) }
}
