package openai

import "math/bits"

// maxCounters bounds the choices of one stream whose text is counted separately. Choices
// with a higher index share the last counter.
const maxCounters = 128

// Tally sums up a whole stream. Its token estimate follows each choice over all its
// fragments, so that an engine gains nothing by sending its answer letter by letter. The
// zero value is ready for use. It keeps no text and is not safe for concurrent use.
type Tally struct {
	// Chunks counts the chunks scanned, ContentChunks those with content.
	Chunks, ContentChunks int
	// ContentBytes, Tokens and its bounds are the sums over all chunks.
	ContentBytes             int64
	Tokens, Least, Plausible int
	// Usage is the last usage that was not absent. Two chunks without choices whose
	// counts differ make it absurd, because only one can be the final one.
	Usage Usage
	// Finished has a bit for each choice below 64 with a finish_reason;
	// FinishCount counts finish_reasons.
	Finished    uint64
	FinishCount int

	final    Usage
	accounts []account
}

// Scan is ScanChunk, added to the tally. After an error the tally must not be
// used for further chunks: the stream is broken.
func (t *Tally) Scan(json []byte) (Chunk, error) {
	s := scan{data: json, body: "delta", tally: t}
	chunk, err := s.run()
	if err != nil {
		return Chunk{}, err
	}
	t.Chunks++
	if chunk.HasContent {
		t.ContentChunks++
	}
	t.ContentBytes += chunk.ContentBytes
	t.Tokens += chunk.Tokens
	t.Least += chunk.Least
	t.Plausible += chunk.Plausible
	t.Finished |= chunk.Finished
	t.FinishCount += chunk.FinishCount
	t.addUsage(&chunk)
	return chunk, nil
}

// FinishedChoices returns how many different choices with an index below 64 have
// finished.
func (t *Tally) FinishedChoices() int { return bits.OnesCount64(t.Finished) }

func (t *Tally) addUsage(c *Chunk) {
	u := c.Usage
	if u.State == UsageAbsent || t.Usage.Reason == UsageDuplicate {
		return
	}
	if c.Choices == 0 {
		if t.final.State != UsageAbsent && !t.final.SameCounts(u) {
			u.refuse(UsageDuplicate)
			u.Reason = UsageDuplicate
		}
		t.final = u
	}
	t.Usage = u
}

// account returns the account of the choice with that index.
func (t *Tally) account(index int64) *account {
	i := maxCounters - 1
	if index >= 0 && index < maxCounters {
		i = int(index)
	}
	for len(t.accounts) <= i {
		t.accounts = append(t.accounts, account{})
	}
	return &t.accounts[i]
}
