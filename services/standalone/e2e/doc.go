// Package e2e tests the whole marketplace as its users meet it: over HTTP with
// the official SDKs, with real engines behind real provider agents, a real
// PostgreSQL and a real NATS server, and with billing-ledger's own verifier as
// the judge of the money.
package e2e
