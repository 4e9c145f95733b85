package flow

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"time"

	"svc.internal/pkg/fingerprint"
	"svc.internal/services/verifier/internal/dice"
	"svc.internal/services/verifier/internal/judge"
	"svc.internal/services/verifier/internal/prompt"
)

// The times of a fingerprint.
const (
	// fingerprintTime and two round trips are what an answer may take. Files on this
	// machine need tens of milliseconds; files at 50 ms need 13 s for the chain alone.
	fingerprintTime = 3 * time.Second
	// maxRoundTrip bounds a round trip that counts, so that slow pongs buy no time.
	maxRoundTrip = 500 * time.Millisecond
	// fingerprintTimeout is how long a hub waits for an answer.
	fingerprintTimeout = 30 * time.Second
)

// writeFingerprint makes the challenge. Request has it as JSON, so that a replay sees what
// was asked.
func (p *passage) writeFingerprint(ctx context.Context) error {
	files, err := p.Files.Files(ctx, p.rec.Plan.Offer.Model)
	if err != nil {
		return &GiveBack{PlatformDown, err}
	}
	plan := p.rec.Plan
	p.files = drawFingerprint(p.Secret, plan.ID.String(), plan.Offer.Provider[:], files)
	if err := p.files.Validate(); err != nil {
		return &Void{NoFiles, err}
	}
	if p.rec.Request, err = json.Marshal(p.files); err != nil {
		return &Void{NoFiles, err}
	}
	return nil
}

// drawFingerprint draws a challenge over the files that can be named. The nonce is
// HMAC(secret, id ‖ provider), so that no answer serves another provider.
func drawFingerprint(secret prompt.Secret, id string, provider []byte, files []File) fingerprint.Challenge {
	nonce := dice.Bytes(secret, "fingerprint nonce", []byte(id), provider)
	d := dice.New(secret, "fingerprint ranges", []byte(id), provider)
	c := fingerprint.Challenge{ID: id, Nonce: nonce[:], Blocks: fingerprint.MaxBlocks}
	known := usable(id, nonce[:], files)
	total := int64(0)
	for _, f := range known {
		total += f.Size
	}
	if total == 0 {
		return c
	}
	for range fingerprint.MaxRanges {
		c.Ranges = append(c.Ranges, drawRange(d, known, total))
	}
	for _, i := range d.Perm(len(known))[:min(len(known), fingerprint.MaxFiles)] {
		c.Files = append(c.Files, known[i])
	}
	return c
}

// usable returns the files that have bytes and a name that agents take, each once.
func usable(id string, nonce []byte, files []File) []fingerprint.File {
	var known []fingerprint.File
	for _, f := range files {
		file := fingerprint.File{Name: f.Name, Size: f.Bytes}
		alone := fingerprint.Challenge{
			ID: id, Nonce: nonce, Ranges: []fingerprint.Range{{File: f.Name, Length: 1}},
			Files: []fingerprint.File{file}, Blocks: 1,
		}
		if alone.Validate() == nil && !slices.ContainsFunc(known, func(k fingerprint.File) bool { return k.Name == f.Name }) {
			known = append(known, file)
		}
	}
	return known
}

// drawRange draws a piece of which every byte of all files is as likely the first, but for
// the ends of files.
func drawRange(d *rand.Rand, files []fingerprint.File, total int64) fingerprint.Range {
	at := d.Int64N(total)
	for _, f := range files {
		if at >= f.Size {
			at -= f.Size
			continue
		}
		length := min(fingerprint.MaxLength, f.Size)
		return fingerprint.Range{File: f.Name, Offset: min(at, f.Size-length), Length: int(length)}
	}
	return fingerprint.Range{} // total is the sum of the sizes
}

// askFingerprint asks the provider. An answer that comes late proves nothing and is not
// whole.
func (p *passage) askFingerprint(ctx context.Context) error {
	reply, err := p.challenge(ctx, p.seat, Challenge{
		ID: p.files.ID, Model: p.rec.Plan.Offer.Model, Timeout: fingerprintTimeout, Fingerprint: &p.files,
		MaxBytes: answerBytes(p.rec.Plan),
	})
	if err != nil {
		return refused(err)
	}
	if err := p.broken(reply); err != nil {
		return err
	}
	due := fingerprintTime + 2*min(max(reply.RoundTrip, 0), maxRoundTrip)
	raw, whole := digests(reply.Data, p.files)
	p.rec.Answer = judge.Answer{
		Served: p.rec.Plan.Offer.Provider.String(), Raw: raw, Chunks: reply.Chunks,
		Complete: reply.End == Answered && reply.Took <= due && whole, Failed: reply.failed(),
	}
	return nil
}

// digests returns the answer to a challenge as records have it. whole reports whether it
// has every digest that the challenge asks for. An agent that cannot read a file says so,
// and states nothing false.
func digests(raw []byte, c fingerprint.Challenge) (record []byte, whole bool) {
	var m struct {
		ID      string   `json:"challenge_id"`
		Digests [][]byte `json:"digests"`
		Chain   []byte   `json:"chain_digest"`
		Error   string   `json:"error"`
	}
	if json.Unmarshal(raw, &m) != nil || m.ID != c.ID {
		return nil, false
	}
	result := fingerprint.Result{Digests: m.Digests, Chain: m.Chain, Error: m.Error}
	if result.Validate(c) != nil {
		return nil, false
	}
	whole = m.Error == "" && len(m.Digests) == len(c.Ranges) && len(m.Chain) == fingerprint.DigestSize
	for _, d := range m.Digests {
		whole = whole && len(d) == fingerprint.DigestSize
	}
	record, err := json.Marshal(judge.Digests{Digests: m.Digests, Chain: m.Chain, Error: m.Error})
	return record, whole && err == nil
}

// expect asks references for their answer to the same challenge.
func (p *passage) expect(ctx context.Context) {
	untilFree(ctx, func() (anyBusy bool) {
		for _, host := range p.scorers {
			reply, ok, busy := p.refer(ctx, host.host, Challenge{
				ID: p.files.ID, Model: host.model, Timeout: fingerprintTimeout, Fingerprint: &p.files,
			})
			anyBusy = anyBusy || busy
			if expected, whole := digests(reply.Data, p.files); ok && whole {
				p.rec.Expected = expected
				p.rec.Scores = []judge.Score{{Host: host.host, Class: host.class, Raw: expected}}
				return false
			}
		}
		return anyBusy
	})
}
