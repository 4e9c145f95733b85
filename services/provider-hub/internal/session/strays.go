package session

import "time"

const (
	// maxLate bounds the messages of a request that lost its slot before it had
	// ended: agents count their time from when they begin, not from when they are
	// asked.
	maxLate = 4096
	// straysFor is how long behind its registration an agent may still send what
	// its engines say of requests of an earlier connection, which is as long as
	// agents let a stream run. maxStrayBytes bounds how much of it is passed over
	// without being counted: 50 streams of some 4 KiB a second.
	straysFor     = 5 * time.Minute
	maxStrayBytes = 64 << 20
)

// strays judges answers that no open request asks for.
type strays struct {
	// late are requests that lost their slot before they had ended, with how many
	// messages may still come, and room is how many are remembered.
	late map[string]int
	room int
	// until is when answers to nobody begin to count; the zero time stands for now.
	// bytes are those of answers that did not count.
	until time.Time
	bytes int64
}

func newStrays(room int) strays { return strays{late: map[string]int{}, room: room} }

// begin notes that the agent is registered.
func (y *strays) begin(now time.Time) { y.until = now.Add(straysFor) }

// forgotten notes a request that lost its slot. Of it more may come, which is no
// flood.
func (y *strays) forgotten(name string) {
	if len(y.late) >= y.room {
		for oldest := range y.late { // any of them
			delete(y.late, oldest)
			break
		}
	}
	y.late[name] = maxLate
}

// ended notes that nothing more comes of a request.
func (y *strays) ended(name string) { delete(y.late, name) }

// take takes an answer to a request that lost its slot. It reports whether there is
// such a request; after its last answer there is none.
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

// inherits reports whether an answer may be that of a request of an earlier
// connection, which the agent goes on sending while it registers and for a time
// behind that. It counts for nothing, because the agent does what agents do, and
// closing the connection would only have it sent on the next.
func (y *strays) inherits(size int64, registering bool, now time.Time) bool {
	if !registering && !now.Before(y.until) || y.bytes+size > maxStrayBytes {
		return false
	}
	y.bytes += size
	return true
}
