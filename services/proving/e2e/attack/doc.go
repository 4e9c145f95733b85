// Package attack is the attacker's suite: one attack for each hole that was found in the
// marketplace. Attacks use the public API, the provider's socket and the bus alone,
// against one process and against a fleet.
//
// An attack says what it got, what it paid and what it cost others, and the suite prints
// that as a table (go test -v). An attack reports its success as an error. The list open
// names the attacks that still succeed, each with the reason; such an attack is shown and
// fails nothing. An attack that is listed as open and is refused fails the suite, so the
// list stays true.
//
// With -short the fast attacks run, on one process. All of them run on both forms in
// `make e2e`. Before says what an attack got of the code in which the hole was found.
package attack
