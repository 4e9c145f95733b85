package session

import "time"

const (
	// maxLate bounds the messages that may still come of a request that lost its slot
	// before it had ended. Some come, because agents count the time of a request from
	// when they begin it, not from when they are asked.
	maxLate = 4096
	// straysFor is how long after its registration an agent may still send answers to
	// requests of an earlier connection, which is as long as agents let a stream run.
	// maxStrayBytes bounds the bytes of such answers that are passed over without being
	// counted: 50 streams of some 4 KiB a second.
	straysFor     = 5 * time.Minute
	maxStrayBytes = 64 << 20
)

// strays judges answers that no open request asks for.
type strays struct {
	// late has the requests that lost their slot before they had ended, with how many
	// messages may still come of each. room is how many such requests are remembered.
	late map[string]int
	room int
	// until is when answers to nobody begin to count; at the zero time they count at
	// once. bytes is the size of the answers that did not count.
	until time.Time
	bytes int64
}

func newStrays(room int) strays { return strays{late: map[string]int{}, room: room} }

// begin notes that the agent is registered.
func (y *strays) begin(now time.Time) { y.until = now.Add(straysFor) }

// forgotten notes a request that lost its slot. More of its answer may come, and does not
// count.
func (y *strays) forgotten(name string) {
	if len(y.late) >= y.room {
		for oldest := range y.late { // any of the requests
			delete(y.late, oldest)
			break
		}
	}
	y.late[name] = maxLate
}

// ended notes that no more messages come of a request.
func (y *strays) ended(name string) { delete(y.late, name) }

// take takes a message of a request that lost its slot. It reports whether there is such
// a request. The request is forgotten after its last message.
func (y *strays) take(name string, last bool) bool {
	left := y.late[name]
	if left == 0 {
		return false
	}
	if y.late[name]--; last || left == 1 {
		delete(y.late, name)
	}
	return true
}

// inherits reports whether an answer may be to a request of an earlier connection. Agents
// go on sending such answers while they register and for a time after that. The answers
// do not count, because honest agents send them, and an agent whose connection is closed
// would only send the rest on its next connection.
func (y *strays) inherits(size int64, registering bool, now time.Time) bool {
	if !registering && !now.Before(y.until) || y.bytes+size > maxStrayBytes {
		return false
	}
	y.bytes += size
	return true
}
