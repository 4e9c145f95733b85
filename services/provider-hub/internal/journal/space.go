package journal

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// ErrSpace refuses a dispatch because others have filled the disk. It is an ErrFull.
// Attempts under way are still recorded, in room that was reserved before.
var ErrSpace = fmt.Errorf("%w: the disk has no room to spare", ErrFull)

const (
	// floorSegments is how many segments must be free beside the reserve for a dispatch
	// to be taken.
	floorSegments = 2
	// lookInterval is how often the free space is read.
	lookInterval = time.Second
)

// spacious is a Disk whose room others can take.
type spacious interface {
	// Free is how many bytes may still be written.
	Free() (int64, error)
	// Hold reserves bytes beside all files, or finds them reserved. Drop releases them.
	Hold(bytes int64) error
	Drop() error
}

// reserver is a File that can reserve room behind its end.
type reserver interface {
	// Reserve makes room for the file to grow to a size in bytes.
	Reserve(bytes int64) error
}

// space keeps room for a segment beside the active segment, so that a disk that others
// fill can record the attempts under way. It is safe for concurrent use. A disk that
// cannot be asked for its room always has some.
type space struct {
	disk    spacious
	segment int64
	low     atomic.Bool

	mu   sync.Mutex // held while the reserve changes
	held bool
}

// begin creates a new segment's file in the place of the reserve, and reserves anew.
// Where no room can be reserved, begin succeeds and dispatches are refused.
func (s *space) begin(create func() (File, error)) (File, error) {
	if s.disk == nil {
		return create()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = false
	if err := s.disk.Drop(); err != nil {
		return nil, fmt.Errorf("give the reserve up: %w", err)
	}
	file, err := create()
	if err != nil {
		return nil, err
	}
	if r, ok := file.(reserver); ok && r.Reserve(s.segment) != nil {
		s.low.Store(true)
		return file, nil
	}
	s.secureLocked()
	return file, nil
}

// look reads whether there is room, and reserves it again when it is back.
func (s *space) look() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.secureLocked()
}

func (s *space) secureLocked() {
	if !s.held {
		s.held = s.disk.Hold(s.segment) == nil
	}
	free, err := s.disk.Free()
	s.low.Store(!s.held || err != nil || free < floorSegments*s.segment)
}

// watch looks for room until the journal is closed.
func (j *Journal) watch() {
	every := time.NewTicker(lookInterval)
	defer every.Stop()
	for {
		select {
		case <-every.C:
			j.space.look()
		case <-j.stopped:
			return
		}
	}
}
