package events

import (
	"crypto/sha256"
	"sync"

	"svc.internal/pkg/agentwire/frame"
	"svc.internal/pkg/workreceipt"
)

// maxVerdicts is how many verdicts are remembered, about 100 bytes each.
const maxVerdicts = 1 << 15

// digest identifies a receipt, to the last bit of it.
type digest [16]byte

// digestOf digests a receipt with its signature. A receipt that cannot be encoded has no
// digest.
func digestOf(s workreceipt.Signed) (d digest, ok bool) {
	encoded, err := frame.EncodeReceipt(s)
	if err != nil {
		return d, false
	}
	sum := sha256.Sum256(encoded)
	return digest(sum[:]), true
}

// verdicts remember the outcome of the last receipts, so that a repeated receipt costs
// neither a signature's verification nor a message. A verdict holds for that very
// receipt: a forged one says nothing of the genuine.
type verdicts struct {
	mu     sync.Mutex
	all    map[digest]string // why it was refused; empty when it was not
	ring   []digest
	next   int
	counts map[string]int // of refusals since the last Drain, by reason
}

func newVerdicts() *verdicts {
	return &verdicts{all: map[digest]string{}, counts: map[string]int{}}
}

// of returns the verdict on a receipt.
func (v *verdicts) of(d digest) (refused string, known bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	refused, known = v.all[d]
	return refused, known
}

// keep remembers a verdict. It replaces the oldest when there are too many.
func (v *verdicts) keep(d digest, refused string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if _, twice := v.all[d]; twice {
		return
	}
	v.all[d] = refused
	if len(v.ring) < maxVerdicts {
		v.ring = append(v.ring, d)
		return
	}
	delete(v.all, v.ring[v.next])
	v.ring[v.next] = d
	v.next = (v.next + 1) % maxVerdicts
}

// maxReasons bounds the reasons that are counted apart; billing-ledger and this
// hub have about a dozen.
const maxReasons = 32

// count counts a refusal.
func (v *verdicts) count(reason string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if _, known := v.counts[reason]; !known && len(v.counts) >= maxReasons {
		reason = "other"
	}
	v.counts[reason]++
}

// drain returns the refusals since the last call, by reason.
func (v *verdicts) drain() map[string]int {
	v.mu.Lock()
	defer v.mu.Unlock()
	counts := v.counts
	v.counts = map[string]int{}
	return counts
}
