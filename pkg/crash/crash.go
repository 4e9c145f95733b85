// Package crash names the steps of a request at which a process may die.
//
// A call of At marks such a step: the state before it is kept, what comes after
// it has not begun. Ordinary builds compile the call away. With the build tag
// crashpoints, and EnvSocket naming the unix socket of a harness, At tells the
// harness the point and the process and waits for leave to go on; meanwhile the
// harness may kill this process, or any other. A harness that is gone, or that
// closes the connection, means: go on.
//
// A point is named <service>.<step>, with dots between the words of a step, and
// stands at one place in the code.
//
// The talk is one line each way on a connection of its own: "<point> <pid>",
// answered by "go". Package crashtest has the harness's side.
package crash

// EnvSocket names the environment variable with the path of the harness's
// socket.
const EnvSocket = "SVC_CRASH_SOCKET"

// EnvPlant names the environment variable with the planted faults, separated by
// commas.
const EnvPlant = "SVC_PLANT"

// The planted faults.
const (
	// SettledBeforeCommit tells hubs that usage is settled before the transaction
	// that settles it is committed.
	SettledBeforeCommit = "billing.settled_before_commit"
	// SkipPrimaryKey settles a redelivered event anew: nobody looks whether the
	// request was settled before. The database's own key must be dropped too.
	SkipPrimaryKey = "billing.skip_primary_key"
	// JournalWithoutFsync leaves what a hub appends to its journal in the memory
	// of the process, where it is as safe as in a page cache in a power cut.
	JournalWithoutFsync = "hub.journal_without_fsync"
)

// Plants are the names of all planted faults.
func Plants() []string { return []string{SettledBeforeCommit, SkipPrimaryKey, JournalWithoutFsync} }
