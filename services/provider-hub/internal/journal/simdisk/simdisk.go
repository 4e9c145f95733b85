// Package simdisk is a disk in memory for tests and simulations of the journal.
//
// It loses what a real disk may lose. A crash keeps what was synced; of the
// rest it keeps, by the dice of the given source, any part: each file creation
// and removal on its own, the length anywhere between the synced and the present
// one, and of the bytes that were written over or behind what was synced any
// sectors, also torn ones, with zeros, junk or the bytes of before in place of the
// others. Synced bytes that were not written over stay, also in a sector that was.
// The same source and the same calls give the same disk. Faults can be planted before
// any operation.
//
// It keeps all files in memory and is meant for journals of a few megabytes.
package simdisk

import (
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"

	"svc.internal/services/provider-hub/internal/journal"
)

// Op names an operation of the disk.
type Op string

// The operations that a hook may see and fail.
const (
	OpCreate   Op = "create"
	OpWrite    Op = "write"
	OpSync     Op = "sync"
	OpTruncate Op = "truncate"
	OpRemove   Op = "remove"
	OpSyncDir  Op = "syncdir"
)

// sector is the unit, in bytes, that survives a crash as a whole or not at all.
const sector = 64

type inode struct {
	data   []byte
	synced []byte // content at the last sync
}

// Disk is a journal.Disk in memory.
type Disk struct {
	// Hook, when set, is called before each operation that changes something,
	// outside of the disk's lock. An error makes the operation fail; a write
	// that fails leaves the first half of its bytes. Set it before the disk is
	// shared.
	Hook func(op Op, name string) error

	mu      sync.Mutex
	files   map[string]*inode
	durable map[string]*inode // the folder at its last sync
	ops     map[Op]int
}

// New returns an empty disk.
func New() *Disk {
	return &Disk{files: map[string]*inode{}, durable: map[string]*inode{}, ops: map[Op]int{}}
}

// Count returns how often an operation was begun.
func (d *Disk) Count(op Op) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ops[op]
}

// Crash returns the disk as the next boot may find it. The old disk stays as it
// was, so that a test can crash one history in many ways.
func (d *Disk) Crash(dice *rand.Rand) *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	after := New()
	names := maps.Clone(d.files)
	maps.Copy(names, d.durable)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		now, before := d.files[name], d.durable[name]
		kept := before
		if now != before && dice.IntN(2) == 0 {
			kept = now
		}
		if kept != nil {
			content := survive(dice, kept)
			after.putLocked(name, content)
		}
	}
	return after
}

// Kill returns the disk as a new process finds it when only the old process
// died: with everything that was written, though no more synced than before.
func (d *Disk) Kill() *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	after := New()
	copies := map[*inode]*inode{}
	for _, names := range []map[string]*inode{d.files, d.durable} {
		for _, n := range names {
			copies[n] = &inode{data: slices.Clone(n.data), synced: slices.Clone(n.synced)}
		}
	}
	for name, n := range d.files {
		after.files[name] = copies[n]
	}
	for name, n := range d.durable {
		after.durable[name] = copies[n]
	}
	return after
}

func (d *Disk) putLocked(name string, content []byte) {
	n := &inode{data: content, synced: slices.Clone(content)}
	d.files[name], d.durable[name] = n, n
}

// survive returns the content that a file has after a crash.
func survive(dice *rand.Rand, n *inode) []byte {
	low, high := len(n.synced), len(n.data)
	if low > high {
		low, high = high, low
	}
	length := low + dice.IntN(high-low+1)
	before, now := padded(n.synced, length), padded(n.data, length)
	for at := 0; at < length; at += sector {
		end := min(at+sector, length)
		fate(dice, before[at:end], now[at:end], len(n.synced)-at)
	}
	return before
}

// padded returns a copy of b with a length, cut or filled with zeros.
func padded(b []byte, length int) []byte {
	out := make([]byte, length)
	copy(out, b)
	return out
}

// fate makes of a sector's bytes of before what the disk has after a crash. From the
// offset synced on, the file was shorter before.
func fate(dice *rand.Rand, before, now []byte, synced int) {
	from, to := changed(before, now)
	if synced < len(before) { // zeros that were never written may be junk, too
		from, to = min(from, max(synced, 0)), len(before)
	}
	if from == to {
		return
	}
	before, now = before[from:to], now[from:to]
	switch dice.IntN(6) {
	case 0: // not written
	case 1:
		for i := range before {
			before[i] = byte(dice.Uint32())
		}
	case 2:
		clear(before)
	case 3:
		copy(before, now[:dice.IntN(len(now)+1)])
	default:
		copy(before, now)
	}
}

// changed returns where the range begins and ends outside of which a and b are the same.
func changed(a, b []byte) (from, to int) {
	for from < len(a) && a[from] == b[from] {
		from++
	}
	for to = len(a); to > from && a[to-1] == b[to-1]; {
		to--
	}
	return from, to
}

// Content returns a copy of a file's bytes.
func (d *Disk) Content(name string) []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := d.files[name]; n != nil {
		return slices.Clone(n.data)
	}
	return nil
}

// Replace sets a file's bytes, as a fault of the medium would.
func (d *Disk) Replace(name string, content []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.putLocked(name, slices.Clone(content))
}

func (d *Disk) begin(op Op, name string) error {
	d.mu.Lock()
	d.ops[op]++
	hook := d.Hook
	d.mu.Unlock()
	if hook == nil {
		return nil
	}
	return hook(op, name)
}

// List returns the names of all files, sorted.
func (d *Disk) List() ([]string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Sorted(maps.Keys(d.files)), nil
}

// Create makes an empty file.
func (d *Disk) Create(name string) (journal.File, error) {
	if err := d.begin(OpCreate, name); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.files[name] != nil {
		return nil, fmt.Errorf("create %s: %w", name, fs.ErrExist)
	}
	n := &inode{}
	d.files[name] = n
	return &file{disk: d, name: name, node: n}, nil
}

// Open opens a file.
func (d *Disk) Open(name string) (journal.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.files[name]
	if n == nil {
		return nil, fmt.Errorf("open %s: %w", name, fs.ErrNotExist)
	}
	return &file{disk: d, name: name, node: n}, nil
}

// Remove unlinks a file.
func (d *Disk) Remove(name string) error {
	if err := d.begin(OpRemove, name); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.files[name] == nil {
		return fmt.Errorf("remove %s: %w", name, fs.ErrNotExist)
	}
	delete(d.files, name)
	return nil
}

// Sync makes creations and removals durable.
func (d *Disk) Sync() error {
	if err := d.begin(OpSyncDir, ""); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.durable = maps.Clone(d.files)
	return nil
}

// Close does nothing: the next boot opens the same disk.
func (d *Disk) Close() error { return nil }

type file struct {
	disk *Disk
	name string
	node *inode
}

func (f *file) WriteAt(b []byte, offset int64) (int, error) {
	err := f.disk.begin(OpWrite, f.name)
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if err != nil {
		half := len(b) / 2
		f.node.put(b[:half], offset)
		return half, err
	}
	f.node.put(b, offset)
	return len(b), nil
}

func (n *inode) put(b []byte, offset int64) {
	if end := int(offset) + len(b); end > len(n.data) {
		had := len(n.data)
		n.data = slices.Grow(n.data, end-had)[:end]
		clear(n.data[had:])
	}
	copy(n.data[offset:], b)
}

func (f *file) ReadAt(b []byte, offset int64) (int, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if offset >= int64(len(f.node.data)) {
		return 0, io.EOF
	}
	n := copy(b, f.node.data[offset:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (f *file) Size() (int64, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	return int64(len(f.node.data)), nil
}

func (f *file) Truncate(size int64) error {
	if err := f.disk.begin(OpTruncate, f.name); err != nil {
		return err
	}
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	f.node.data = f.node.data[:size]
	return nil
}

func (f *file) Sync() error {
	if err := f.disk.begin(OpSync, f.name); err != nil {
		return err
	}
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	f.node.synced = append(f.node.synced[:0], f.node.data...)
	return nil
}

func (f *file) Close() error { return nil }
