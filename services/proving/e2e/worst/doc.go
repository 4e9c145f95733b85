// Package worst rehearses the worst days on a fleet of processes: the database's disk is lost and
// restored from a base backup and archived WAL, and all NATS data is lost together with a hub's
// journal. The steps are those of deploy/runbooks/restore.md and lost-nats.md.
//
// The tests have the build tag rehearsal and run by make restore-rehearsal.
package worst
