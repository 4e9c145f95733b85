// Package kill holds the kill suite: parts of the marketplace die by SIGKILL at every
// named step of a request (see pkg/crash), and afterwards the ledger and what the client
// heard must agree.
//
// A cell of the matrix is a point, a victim and a round. One request runs to the point;
// the process that reaches it stands still; the victim is killed; the point is released;
// the victim is started again. Then the client's call must have ended in bounded time
// with the truth, the request's hold must be settled exactly once or released, nothing
// may be charged that the table of endings does not allow, the provider must be credited
// what settlement recorded, and the next request must be served.
//
// Points are in points_test.go, the judgement in judge_test.go, a cell in matrix_test.go.
// The suite skips under -short. It builds the programs with the tag crashpoints itself.
// Each of two rounds is split between two fleets.
package kill
