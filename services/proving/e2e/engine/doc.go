// Package engine tests the whole marketplace in front of a real inference engine, Ollama,
// which serves generated models: its answers, what happens when a consumer leaves, when
// the engine loses a model or is killed, and what of all that is charged.
//
// The tests have the build tag engine and run by make engine. They take the program from
// OLLAMA_BIN. Without it they are skipped, but fail when CI=true.
package engine
