package dispatch

import (
	"strconv"
	"strings"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/openai"
)

// An engine's failure has the same status and the same code for every engine, and for both dialects
// of agents:
//
//	failure                                    EngineStatus      Code            EngineCode
//	the engine is not reached, or breaks off
//	before content                             0                 upstream_error
//	it breaks off after content                200               upstream_error
//	it does not have the model                 404               upstream_error
//	it has no slot, or its agent has none      429, or 0         upstream_error  (Busy)
//	it fails                                   5xx               upstream_error
//	the prompt is longer than its window       400, or its own   engine_refused  context_length_exceeded
//	it refuses the content otherwise           4xx               engine_refused  its own word, or none
//
// Agents of dialect v1 report an engine's status and message, but not its code. So a failure on which
// consumers' programs act is recognised by the engine's message, and a code that only repeats the
// status is dropped.

// noModel is the code by which an engine says that it does not have the model.
const noModel = "model_not_found"

// tooLongWords are parts of engines' messages, in lower case, that say that a prompt does not fit the
// window.
var tooLongWords = [...]string{
	"maximum context length",            // OpenAI, vLLM
	"longer than the model's context",   // SGLang
	"maximum allowed length",            // SGLang, older
	"available context size",            // llama.cpp
	"exceeds the context length",        // Ollama
	"exceeds maximum model length",      // vLLM
	"longer than the maximum model len", // vLLM, older
	"exceeds the maximum model length",  // vLLM
	"prompt is too long",                // Anthropic
}

// codeOf returns the code of an engine's refusal; empty for none.
func codeOf(e openai.Error) string {
	text := strings.ToLower(e.Message)
	for _, words := range tooLongWords {
		if strings.Contains(text, words) {
			return string(fault.ContextLengthExceeded)
		}
	}
	if n, err := strconv.Atoi(e.Code); err == nil && n >= 400 && n <= 599 {
		return ""
	}
	return e.Code
}
