// Package e2e tests the whole marketplace as its users meet it: over HTTP with the
// official SDKs, with real engines behind real provider agents, a real PostgreSQL and a
// real NATS server, and with billing-ledger's own verifier as the judge of the money.
//
// Cases run in both forms of the marketplace (trial.Each): in one process, and as a fleet
// of separate processes with mutual TLS, which the cases share. A case that needs a
// process or a fleet of its own says so, and runs beside others of that kind. Under
// -short long cases skip, and the SDKs test their claims in one process only.
package e2e
