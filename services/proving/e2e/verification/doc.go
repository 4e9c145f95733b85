// Package verification tests that cheats of providers are found, through the real edge,
// hub, router, settlement, verifier, PostgreSQL and NATS, with real provider agents before
// engines of the laboratory (package cheat).
//
// One marketplace has a model for each cheat. Two references, an honest provider and the
// cheat serve it. Everything that the verifier decides follows from the database's clock,
// which the tests move: an hour passes when the probes of the hour are done. The pauses of
// the verifier's loops are divided by a setting of development, and nothing else of it
// differs from production.
//
// A whole calibration of a stratum takes some minutes of computing. So the samples of one
// are kept in testdata. They are given to the verifier as what an earlier replica measured
// in the run that it has under way; it fits, checks and stores calibrations as always.
package verification
