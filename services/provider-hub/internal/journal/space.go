package journal

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// ErrSpace refuses a dispatch because others have filled the disk. It is an
// ErrFull. What is under way is still recorded, in room that was reserved before.
var ErrSpace = fmt.Errorf("%w: the disk has no room to spare", ErrFull)

const (
	// floorSegments is how much must be free beside what is reserved, in segments,
	// for a dispatch to be taken.
	floorSegments = 2
	// lookInterval is how often the free space is looked at.
	lookInterval = time.Second
)

// spacious is a Disk that can run out of room because of others.
type spacious interface {
	// Free is how many bytes may still be written.
	Free() (int64, error)
	// Hold reserves so many bytes beside all files, or finds them reserved; Drop
	// gives them up.
	Hold(bytes int64) error
	Drop() error
}

// reserver is a File that can have room behind its end.
type reserver interface {
	// Reserve makes room for the file to grow to so many bytes.
	Reserve(bytes int64) error
}

// space keeps room for a segment beside the active segment, so that a disk
// that somebody else fills takes what the attempts under way still have to say. It
// is safe for concurrent use; where the disk is none that can be asked, there
// always is room.
type space struct {
	disk    spacious
	segment int64
	low     atomic.Bool

	mu   sync.Mutex // held while the reserve changes
	held bool
}

// begin makes a new segment's file in the place of the reserve, and reserves anew.
// That there is no room to reserve is no failure: dispatches are refused.
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

// look finds out whether there is room, and reserves it again when it is back.
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

// watch looks until the journal is closed.
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

// trim gives back what was reserved behind the end of a segment that is sealed.
func trim(file File) error {
	if _, ok := file.(reserver); !ok {
		return nil
	}
	size, err := file.Size()
	if err != nil {
		return err
	}
	return file.Truncate(size)
}
