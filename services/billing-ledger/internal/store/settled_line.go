package store

import (
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/services/billing-ledger/internal/usage"
)

const insertLine = `INSERT INTO usage_settlement (day, request_id, account_id, key_id, provider_id, price_version_id,
	hub_id, model_id, source, ending, claim_state, route_mode, requested_provider, fallback_reason,
	attempt, epoch, input_rate, output_rate, payout_input_rate, payout_output_rate,
	prompt_tokens, completion_tokens, list_price, payout, charged, shortfall,
	claimed_prompt, claimed_completion, recounted_completion, delivered_bytes, estimated_prompt, first_content_ms,
	payload_hash, dispatched_at, ended_at, evidence_source, unit, discount, connection_mode, vendor, cached_tokens,
	cached_rate)
SELECT * FROM unnest($1::date[], $2::uuid[], $3::uuid[], $4::uuid[], $5::uuid[], $6::uuid[],
	$7::text[], $8::text[], $9::text[], $10::text[], $11::text[], $12::text[], $13::text[], $14::text[],
	$15::integer[], $16::bigint[], $17::bigint[], $18::bigint[], $19::bigint[], $20::bigint[],
	$21::bigint[], $22::bigint[], $23::bigint[], $24::bigint[], $25::bigint[], $26::bigint[],
	$27::bigint[], $28::bigint[], $29::bigint[], $30::bigint[], $31::bigint[], $32::bigint[],
	$33::bytea[], $34::timestamptz[], $35::timestamptz[], $36::text[], $37::smallint[], $38::bigint[],
	$39::smallint[], $40::boolean[], $41::bigint[], $42::bigint[])`

// insertLines adds settled requests. A conflict on the primary key is an error on
// purpose: the locks on the holds rule it out, and ignoring it would move a wallet for a
// line that is not there.
func insertLines(batch *pgx.Batch, lines []usage.Line) {
	if len(lines) == 0 {
		return
	}
	c := newLineColumns(len(lines))
	for i, line := range lines {
		c.set(i, line)
	}
	batch.Queue(insertLine, c.args()...)
}

// lineColumns is a batch of lines by column: grouped by the type of the column, in the
// order of insertLine.
type lineColumns struct {
	day      []time.Time
	uuids    [5][][16]byte
	texts    [8][]string
	attempt  []int32
	bigints  [17][]int64
	hash     [][]byte
	evidence []string
	unit     []int16
	mode     []int16
	discount []int64
	vendor   []bool
	cached   [2][]int64 // tokens and rate
	instants [2][]*time.Time
}

func newLineColumns(n int) *lineColumns {
	c := &lineColumns{day: make([]time.Time, n), attempt: make([]int32, n), hash: make([][]byte, n),
		evidence: make([]string, n), unit: make([]int16, n), mode: make([]int16, n), discount: make([]int64, n),
		vendor: make([]bool, n), cached: [2][]int64{make([]int64, n), make([]int64, n)}}
	for i := range c.uuids {
		c.uuids[i] = make([][16]byte, n)
	}
	for i := range c.texts {
		c.texts[i] = make([]string, n)
	}
	for i := range c.bigints {
		c.bigints[i] = make([]int64, n)
	}
	for i := range c.instants {
		c.instants[i] = make([]*time.Time, n)
	}
	return c
}

func (c *lineColumns) set(i int, l usage.Line) {
	e := l.Event
	c.day[i], c.attempt[i], c.hash[i] = e.Request.Day(), e.Attempt, l.Hash[:]
	for column, id := range [...][16]byte{e.Request, l.Account, l.Key, e.Provider, e.Price} {
		c.uuids[column][i] = id
	}
	for column, text := range [...]string{
		e.Hub, e.Model, string(l.Source), e.Ending, e.ClaimState, e.RouteMode, e.RequestedProvider, e.FallbackReason,
	} {
		c.texts[column][i] = text
	}
	for column, n := range [...]int64{
		e.Epoch, int64(e.Rates.Input), int64(e.Rates.Output), int64(e.Rates.PayoutInput), int64(e.Rates.PayoutOutput),
		e.Billable.Prompt, e.Billable.Completion,
		int64(l.ListPrice), int64(l.Payout), int64(l.Charged), int64(l.Shortfall),
		e.Claimed.Prompt, e.Claimed.Completion, e.RecountedCompletion, e.DeliveredBytes, e.EstimatedPrompt, e.FirstContentMS,
	} {
		c.bigints[column][i] = n
	}
	c.evidence[i], c.unit[i], c.discount[i] = string(e.EvidenceSource), int16(e.Rates.Unit), int64(l.Discount)
	c.mode[i] = e.Mode
	c.vendor[i], c.cached[0][i], c.cached[1][i] = e.Vendor, cachedOf(l), int64(e.Rates.PayoutCachedInput)
	c.instants[0][i], c.instants[1][i] = nullTime(e.DispatchedAt), nullTime(e.EndedAt)
}

func (c *lineColumns) args() []any {
	args := []any{c.day}
	for _, column := range c.uuids {
		args = append(args, column)
	}
	for _, column := range c.texts {
		args = append(args, column)
	}
	args = append(args, c.attempt)
	for _, column := range c.bigints {
		args = append(args, column)
	}
	return append(args, c.hash, c.instants[0], c.instants[1], c.evidence, c.unit, c.discount, c.mode, c.vendor,
		c.cached[0], c.cached[1])
}
