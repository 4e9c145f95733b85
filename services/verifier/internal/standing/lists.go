package standing

import "svc.internal/services/verifier/internal/calibration"

const (
	maxTokens   = 1 << 30
	maxHourWeek = 1 << 40
)

func (l Last) write(w *writer) {
	w.uint16(l.n)
	for _, word := range l.bits {
		w.uint64(int64(word))
	}
}

func (l *Last) read(r *reader) {
	l.n = r.uint16(calibration.History)
	for i := range l.bits {
		for _, b := range r.take(8) {
			l.bits[i] = l.bits[i]<<8 | uint64(b)
		}
	}
	for i := l.n; i < 64*lastWords; i++ {
		if l.bits[i/64]>>(i%64)&1 == 1 {
			r.fail("an observation behind the last")
			return
		}
	}
}

func (k Taken) write(w *writer) {
	w.uint64(k.week)
	for _, row := range k.counts {
		for _, n := range row {
			w.uint16(int(n))
		}
	}
}

func (k *Taken) read(r *reader) {
	k.week = r.uint64(maxHourWeek)
	for i := range k.counts {
		for j := range k.counts[i] {
			k.counts[i][j] = uint16(r.uint16(maxTaken))
		}
	}
}

func (k Unjudged) write(w *writer) {
	for _, s := range k.scores {
		w.byte(s.n)
		w.time(s.at)
	}
}

func (k *Unjudged) read(r *reader) {
	for i := range k.scores {
		s := unjudged{n: r.byte(), at: r.time()}
		if s.n > UnjudgedVoids || (s.n == 0) != s.at.IsZero() {
			r.fail("a score of %d voids", s.n)
		}
		k.scores[i] = s
	}
}

func (o Owed) write(w *writer) {
	w.uint64(o.tokens)
	w.time(o.at)
}

func (o *Owed) read(r *reader) {
	*o = Owed{tokens: r.uint64(maxTokens), at: r.time()}
	if (o.tokens == 0) != o.at.IsZero() {
		r.fail("%d tokens are owed", o.tokens)
	}
}
