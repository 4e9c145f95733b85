// Package crash names the steps of a request at which a process may die.
//
// A call of At marks such a step: the state before it is stored, and the work after it
// has not begun. Ordinary builds compile the call away. With the build tag crashpoints,
// and EnvSocket naming the unix socket of a harness, At sends the point and the process
// to the harness and waits for its answer. Meanwhile the harness may kill this process,
// or any other. When the harness has ended or closes the connection, At returns.
//
// A point is named <service>.<step>, with dots between the words of a step, and stands at
// one place in the code.
//
// The protocol is one line each way on a connection of its own: "<point> <pid>", answered
// by "go". Package crashtest has the harness's side.
package crash

// EnvSocket names the environment variable with the path of the harness's
// socket.
const EnvSocket = "SVC_CRASH_SOCKET"

// EnvPlant names the environment variable with the planted faults, separated by
// commas.
const EnvPlant = "SVC_PLANT"

// The planted faults.
const (
	// SettledBeforeCommit notifies hubs that usage is settled before the transaction that
	// settles it is committed.
	SettledBeforeCommit = "billing.settled_before_commit"
	// SkipPrimaryKey settles a redelivered event again, without looking whether the
	// request was settled before. The database's own key must be dropped too.
	SkipPrimaryKey = "billing.skip_primary_key"
	// PinWithoutSlice writes the hold of a request that was admitted from a slice without taking its
	// amount from the slice.
	PinWithoutSlice = "billing.pin_without_slice"
	// TicketIgnored opens no ticket, so that a hold which its owner did not write, because it was killed, is
	// never written.
	TicketIgnored = "billing.ticket_ignored"
	// TicketUnchecked takes every ticket, whoever sealed it.
	TicketUnchecked = "billing.ticket_unchecked"
	// JournalWithoutFsync leaves a hub's journal entries in the memory of the process,
	// where a kill loses them as a power cut loses a page cache.
	JournalWithoutFsync = "hub.journal_without_fsync"
)

// Plants returns the names of all planted faults.
func Plants() []string {
	return []string{SettledBeforeCommit, SkipPrimaryKey, PinWithoutSlice, TicketIgnored, TicketUnchecked,
		JournalWithoutFsync}
}
