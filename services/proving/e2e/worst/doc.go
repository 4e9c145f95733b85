// Package worst rehearses the worst days on a fleet of processes: the database's disk is lost and
// restored from a base backup and archived WAL, also where a payout of the lost time is on its chain,
// all NATS data is lost together with a hub's journal, a hub's volume is lost alone, NATS servers of
// a cluster are lost, and so is a zone. The steps are those of deploy/runbooks/restore.md,
// lost-nats.md and lost-zone.md.
//
// The tests have the build tag rehearsal and run by make restore-rehearsal and make zone-rehearsal.
package worst
