package session

import "crypto/sha256"

// MaxRanges bounds the ranges of a fingerprint.
const MaxRanges = 16

// Challenge marks a request that comes from the verifier. Such a request is opened
// whether or not the provider may serve consumers, and the times of its bytes are kept.
// In all else it is like any other request: it takes a slot, has credit, and is drained.
type Challenge struct {
	// ID is told to the agent with a task.
	ID string
	// Task is what the agent is asked; nil for an inference.
	Task Task
}

// Task is a message that is no inference: *Fingerprint, *Deterministic or *Benchmark.
type Task interface{ task() }

// Fingerprint asks for digests of pieces of the model's files.
type Fingerprint struct {
	Nonce       []byte
	Ranges      []FileRange
	ChainFiles  []ChainFile
	ChainLength uint32
}

// FileRange is a piece of a file of the model, in bytes.
type FileRange struct {
	File   string
	Offset int64
	Length int32
}

// ChainFile is a file that the chain of blocks may read.
type ChainFile struct {
	File string
	Size int64
}

// Deterministic asks for the tokens of an answer at temperature 0 (v1).
type Deterministic struct {
	Prompt    string
	Seed      int64
	MaxTokens int32
}

// Benchmark asks the agent to measure itself (v1).
type Benchmark struct {
	Test    string
	Prompts []string
}

func (*Fingerprint) task()   {}
func (*Deterministic) task() {}
func (*Benchmark) task()     {}

// Digests is an agent's reply to a fingerprint (v2).
type Digests struct {
	ID string
	// Sizes are those of the digests of the ranges, in bytes, at most one more than
	// MaxRanges, however many came. A digest of a range that could not be read is empty.
	Sizes []int
	// Chain is the size of the digest of the chain.
	Chain int
}

// faulty reports whether no honest agent sends such a reply to f.
func (d *Digests) faulty(f *Fingerprint) bool {
	if len(d.Sizes) > len(f.Ranges) || wrongSize(d.Chain) {
		return true
	}
	for _, size := range d.Sizes {
		if wrongSize(size) {
			return true
		}
	}
	return false
}

func wrongSize(size int) bool { return size != 0 && size != sha256.Size }
