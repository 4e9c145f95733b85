// Package openai has the parts of the OpenAI wire format that several services need: the
// error body, server-sent events, a one-pass description of the chunks and whole answers
// that are relayed, the splicing that makes them fit for the client, and a token
// estimate.
//
// Nothing here parses an answer into structs or marshals one again. A scan finds byte
// ranges, counts what was delivered and reads the usage. Rewrite copies the bytes and
// replaces only the ranges that it must. Unknown members pass unchanged.
//
// Limits: nesting as jsonscan.DefaultMaxDepth; one server-sent event DefaultMaxEvent (1
// MiB) unless set otherwise; an engine's error message MaxErrorMessage (4 KiB). Lengths
// are bytes, counts are tokens.
//
// The structs in answer.go are for engines and tests that write answers.
package openai
