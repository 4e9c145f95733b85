package journal

// Holds reports whether the attempt is open or unsettled.
func (j *Journal) Holds(key Key) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.index.stateOf(key) != stateAbsent
}
