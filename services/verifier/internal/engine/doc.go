// Package engine measures what the families of evidence see on a real inference engine:
// Ollama, which serves one generated model as 32-bit weights to the reference, and to
// providers as 16-bit weights, as 8-bit and 4-bit ones of its own quantizer, as other
// weights, and with a window that cuts prompts in silence.
//
// Ollama does not score prompts. The reference here decodes greedily beside the answer and
// starts again behind each token in which the two differ, so that its log-probabilities
// stand behind the provider's own tokens. A generated model recalls nothing: family D is
// measured in the laboratory.
//
// The tests have the build tag engine and run by make engine, which sets OLLAMA_BIN.
package engine
