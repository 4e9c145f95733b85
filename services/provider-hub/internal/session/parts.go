package session

import "time"

// TakeParts is Take for a challenge: it says of the piece when its parts were read. It
// returns nothing before the last byte of the challenge was written, and nothing after the
// stream was closed: bytes that waited are given up then, and their end alone would make a
// cut answer a whole one.
func (st *Stream) TakeParts() (piece []byte, parts []Part, end *End, err error) {
	s := st.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if st.timing.written.IsZero() || st.released {
		return nil, nil, nil, nil
	}
	parts = st.timing.taken()
	piece, end, err = st.takeLocked()
	if len(piece) == 0 {
		parts = nil // of bytes that were given up
	}
	return piece, parts, end, err
}

// Times are when the last byte of a challenge was written and how long after that the
// challenge ended. They are zero before that.
func (st *Stream) Times() (written time.Time, took time.Duration) {
	s := st.session
	s.mu.Lock()
	defer s.mu.Unlock()
	return st.timing.written, st.timing.took()
}
