package session

// TakeParts is Take for a challenge: it says of the piece when its parts were read. It
// returns nothing after the stream was closed: bytes that waited are given up then, and
// their end alone would make a cut answer a whole one.
func (st *Stream) TakeParts() (piece []byte, parts []Part, end *End, err error) {
	s := st.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if st.released {
		return nil, nil, nil, nil
	}
	parts = st.timing.taken()
	piece, end, err = st.takeLocked()
	if len(piece) == 0 {
		parts = nil // of bytes that were given up
	}
	return piece, parts, end, err
}

// Times are the times of a challenge.
func (st *Stream) Times() Times {
	s := st.session
	s.mu.Lock()
	defer s.mu.Unlock()
	return st.timing.times()
}
