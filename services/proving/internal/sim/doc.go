// Package sim plays whole histories of the fleet in one thread and in no time: gateways,
// hubs with their journals, agents, NATS, billing-ledger and settlement, with clients and
// engines of every kind, a virtual clock, and faults. One seed is one history, to the
// byte of its trace.
//
// The services' own code is played as far as it handles money (see gatewaysim, hubsim,
// ledgersim and settlesim for what they play and what they omit). The network, NATS,
// PostgreSQL, routers, agents, engines and clients are the simulator's: messages take
// their time and overtake each other, calls get lost on either way, streams keep their
// order and break, NATS delivers more than once and forgets, disks lose what was not
// synced, transactions are committed and nobody hears of it, processes die between any
// two steps, freeze and have clocks that jump. Only the database's clock is right.
//
// When nothing can happen any more, what clients got, what engines sent and the tables of
// both ledgers are written to files in memory, and package auditor says what is lost,
// doubled, unpaid, overdrawn or adrift. Package sim itself judges only what no file has:
// the money after every step, what journals still hold, who served each client
// (invariants.go), and which findings a known limit of the design explains (excuse.go).
package sim
