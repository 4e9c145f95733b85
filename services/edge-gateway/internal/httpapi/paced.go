package httpapi

import (
	"net/http"
	"time"
)

// writeSlice is how much one write deadline has to suffice for.
const writeSlice = 256 << 10

// deadlineSlack is how much shorter than it may be a write's time can be.
const deadlineSlack = time.Second

// pacedWriter writes to one client, each write under its own deadline.
type pacedWriter struct {
	w       http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
	failed  bool // a write has failed: the client has left or is too slow

	wrote    time.Time // when something was written last
	deadline time.Time // of the connection, as set last
}

// newPacedWriter writes to w, whose connection is that of control. Each write has so
// much time.
func newPacedWriter(w http.ResponseWriter, control *http.ResponseController, timeout time.Duration) pacedWriter {
	return pacedWriter{w: w, control: control, timeout: timeout}
}

// write writes in slices, each of which has its own time.
func (p *pacedWriter) write(data []byte) error {
	for {
		n := min(len(data), writeSlice)
		p.extend()
		if _, err := p.w.Write(data[:n]); err != nil {
			p.failed = true
			return err
		}
		if data = data[n:]; len(data) == 0 {
			return nil
		}
	}
}

// flush writes and sends off.
func (p *pacedWriter) flush(data []byte) error {
	if err := p.write(data); err != nil {
		return err
	}
	err := p.control.Flush()
	p.failed = p.failed || err != nil
	return err
}

// extend gives the next write its time, or what is still to be written one more term. Of many writes in a row
// only some set a deadline, for that costs as much as the rest of a small event.
func (p *pacedWriter) extend() {
	p.wrote = time.Now()
	due := p.wrote.Add(p.timeout)
	if due.Sub(p.deadline) < min(deadlineSlack, p.timeout/8) {
		return
	}
	p.deadline = due
	// A connection that knows no deadlines (a test's recorder) has none.
	_ = p.control.SetWriteDeadline(due)
}

// advance gives the connection of an answer that waits for another model one more term. The client has waited
// for the model before, so its next keep-alive waits for no earlier write.
func (p *pacedWriter) advance() {
	p.extend()
	p.wrote = time.Time{}
}
