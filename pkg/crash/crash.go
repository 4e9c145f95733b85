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
