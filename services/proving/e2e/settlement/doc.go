// Package settlement tests what becomes of earnings and of collateral, through the real edge, hub, ledger, settlement
// and chain-signer, on real chains (anvil) and PostgreSQL.
//
// A day, the time to appeal and the wait of a refund end when a test says so: the time of the test's own PostgreSQL
// server moves, and that of its chains with it. Programs keep the machine's time.
//
// One town is a fleet of processes, built with the tag crashpoints. Its settlement, chain-signer and billing-ledger are
// killed at each of their crash points that no request reaches, and started again; the list of points is compared with
// the tree.
package settlement
