// Package engine tests the whole marketplace in front of a real inference
// engine, Ollama, that serves generated models: what it answers, what it does
// when it is left, loses a model or is killed, and what of all that is charged.
//
// The tests have the build tag engine and run by make engine. They take the
// program from OLLAMA_BIN; without it they are skipped, but fail when CI=true.
package engine
