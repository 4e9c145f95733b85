package providerapi

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/url"
	"time"
	"unicode/utf8"

	"svc.internal/pkg/ethereum"
	"svc.internal/pkg/money"
	settlementv1 "svc.internal/proto/svc/settlement/v1"

	"svc.internal/services/edge-gateway/internal/export"
)

// maxDay is in bytes, above the length of a day and of a month.
const maxDay = 16

// monthEarned is what a provider has of a month of plans.
type monthEarned struct {
	Month string `json:"month"`
	// State is settlement_pending until the month is closed, then paid.
	State  string `json:"state"`
	Earned string `json:"earned_usd_str"`
	Held   string `json:"held_usd_str"`
	Paid   string `json:"paid_usd_str"`
}

// periodEarned is what a provider has earned in the last days: whole UTC days, and today so far.
type periodEarned struct {
	Since string `json:"since"`
	// Earned is the sum of the others. Unbatched is of days that no batch has yet, and is not divided.
	Earned    string `json:"earned_usd_str"`
	Unbatched string `json:"unbatched_usd_str"`
	Settled   string `json:"settled_usd_str"`
	Held      string `json:"held_usd_str"`
	Pending   string `json:"settlement_pending_usd_str"`
}

// earnings is where the earnings of a provider stand.
type earnings struct {
	Settled        string        `json:"settled_usd_str"`
	Held           string        `json:"held_usd_str"`
	Pending        string        `json:"settlement_pending_usd_str"`
	Months         []monthEarned `json:"months"`
	Payable        string        `json:"payable_usd_str"`
	InFlight       string        `json:"in_flight_usd_str"`
	Paid           string        `json:"paid_usd_str"`
	Converted      string        `json:"converted_usd_str"`
	Owed           string        `json:"owed_usd_str"`
	BatchedThrough string        `json:"batched_through"`
	Blocked        bool          `json:"blocked"`
	// The periods are absent where an older settlement does not tell them.
	Today      *periodEarned `json:"today,omitempty"`
	SevenDays  *periodEarned `json:"last_7_days,omitempty"`
	ThirtyDays *periodEarned `json:"last_30_days,omitempty"`
	// ByDay is absent unless days were asked for.
	ByDay []dayEarned `json:"by_day,omitempty"`
}

// dayEarned is what a provider has earned on one UTC day; see periodEarned.
type dayEarned struct {
	Day       string `json:"day"`
	Earned    string `json:"earned_usd_str"`
	Unbatched string `json:"unbatched_usd_str"`
	Settled   string `json:"settled_usd_str"`
	Held      string `json:"held_usd_str"`
	Pending   string `json:"settlement_pending_usd_str"`
}

func usd(nano int64) string { return money.NanoUSD(nano).String() }

// Earnings answers GET /api/v1/provider/earnings: where the provider's earnings stand, and with days what was earned on
// each of the last days. A provider key may read them.
func (a *API) Earnings(ctx context.Context, c Call) (Answer, error) {
	provider, err := a.keyOrSession(ctx, c)
	if err != nil {
		return Answer{}, err
	}
	days, err := number(c.Query, "days")
	if err != nil {
		return Answer{}, err
	}
	called, cancel := context.WithTimeout(ctx, a.cfg.CallTimeout)
	defer cancel()
	e, err := a.peers.Earnings.GetEarnings(called, &settlementv1.GetEarningsRequest{ProviderId: provider, Days: days})
	if err != nil {
		return Answer{}, ofPeer(ctx, err)
	}
	return answer(http.StatusOK, earningsOf(e))
}

func earningsOf(e *settlementv1.GetEarningsResponse) earnings {
	out := earnings{
		Settled: usd(e.GetSettledNanoUsd()), Held: usd(e.GetHeldNanoUsd()), Pending: usd(e.GetPendingNanoUsd()),
		Months: make([]monthEarned, 0, len(e.GetMonths())), Payable: usd(e.GetPayableNanoUsd()),
		InFlight: usd(e.GetInFlightNanoUsd()), Paid: usd(e.GetPaidNanoUsd()), Converted: usd(e.GetConvertedNanoUsd()),
		Owed: usd(e.GetOwedNanoUsd()), BatchedThrough: e.GetBatchedThrough(), Blocked: e.GetBlocked(),
		Today: periodOf(e.GetToday()), SevenDays: periodOf(e.GetSevenDays()), ThirtyDays: periodOf(e.GetThirtyDays()),
	}
	for _, d := range e.GetByDay() {
		of := periodOf(d)
		out.ByDay = append(out.ByDay, dayEarned{of.Since, of.Earned, of.Unbatched, of.Settled, of.Held, of.Pending})
	}
	for _, m := range e.GetMonths() {
		out.Months = append(out.Months, monthEarned{m.GetMonth(), m.GetState(), usd(m.GetEarnedNanoUsd()),
			usd(m.GetHeldNanoUsd()), usd(m.GetPaidNanoUsd())})
	}
	return out
}

func periodOf(p *settlementv1.PeriodEarning) *periodEarned {
	if p == nil {
		return nil
	}
	return &periodEarned{Since: p.GetSince(),
		Earned:    usd(p.GetUnbatchedNanoUsd() + p.GetSettledNanoUsd() + p.GetHeldNanoUsd() + p.GetPendingNanoUsd()),
		Unbatched: usd(p.GetUnbatchedNanoUsd()), Settled: usd(p.GetSettledNanoUsd()), Held: usd(p.GetHeldNanoUsd()),
		Pending: usd(p.GetPendingNanoUsd())}
}

// listedStatement is a statement in a list.
type listedStatement struct {
	Day     string `json:"day"`
	ChainID int64  `json:"chain_id"`
	Amount  string `json:"amount_usd_str"`
	// Posted is null until it is posted.
	Posted  *string `json:"posted_usd_str"`
	Lines   int64   `json:"lines"`
	Blocked bool    `json:"blocked"`
	Signed  bool    `json:"signed"`
}

// Statements answers GET /api/v1/provider/statements: one page of the provider's daily statements, newest first.
func (a *API) Statements(ctx context.Context, c Call) (Answer, error) {
	provider, err := a.keyOrSession(ctx, c)
	if err != nil {
		return Answer{}, err
	}
	req := &settlementv1.ListStatementsRequest{ProviderId: provider}
	if req.Before, err = text(c.Query, "before", maxDay); err != nil {
		return Answer{}, err
	}
	if req.PageSize, err = number(c.Query, "page_size"); err != nil {
		return Answer{}, err
	}
	called, cancel := context.WithTimeout(ctx, a.cfg.CallTimeout)
	defer cancel()
	resp, err := a.peers.Earnings.ListStatements(called, req)
	if err != nil {
		return Answer{}, ofPeer(ctx, err)
	}
	list := make([]listedStatement, 0, len(resp.GetList()))
	for _, s := range resp.GetList() {
		list = append(list, listedStatement{s.GetDay(), s.GetChainId(), usd(s.GetAmountNanoUsd()),
			posted(s.PostedNanoUsd), s.GetLines(), s.GetBlocked(), s.GetSigned()})
	}
	return answer(http.StatusOK, struct {
		List       []listedStatement `json:"list"`
		NextBefore string            `json:"next_before"`
	}{list, resp.GetNextBefore()})
}

func posted(nano *int64) *string {
	if nano == nil {
		return nil
	}
	text := usd(*nano)
	return &text
}

// Statement answers GET /api/v1/provider/statements/{day}: the statement, byte for byte as it is signed, and its
// signature.
func (a *API) Statement(ctx context.Context, c Call) (Answer, error) {
	provider, err := a.keyOrSession(ctx, c)
	if err != nil {
		return Answer{}, err
	}
	called, cancel := context.WithTimeout(ctx, a.cfg.CallTimeout)
	defer cancel()
	s, err := a.peers.Earnings.GetStatement(called, &settlementv1.GetStatementRequest{ProviderId: provider,
		Day: variable(c.Rest)})
	if err != nil {
		return Answer{}, ofPeer(ctx, err)
	}
	return answer(http.StatusOK, struct {
		Statement json.RawMessage `json:"statement"`
		Summary   string          `json:"summary_keccak256"`
		Signature string          `json:"signature"`
		Signer    string          `json:"signer"`
		Posted    *string         `json:"posted_usd_str"`
		EntryID   string          `json:"entry_id"`
	}{s.GetStatement(), hexOf(s.GetSummary()), hexOf(s.GetSignature()), hexOf(s.GetSigner()), posted(s.PostedNanoUsd),
		s.GetEntryId()})
}

// hexOf is 0x and digits; empty for nothing.
func hexOf(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	return "0x" + hex.EncodeToString(b)
}

// variable is the variable part of a path, unescaped; what no day or month can be becomes empty.
func variable(rest string) string {
	text, err := url.PathUnescape(rest)
	if err != nil || len(text) > maxDay || !utf8.ValidString(text) {
		return ""
	}
	return text
}

// PlanPool answers GET /api/v1/stats/plan-pool/{month}: a closed month of plans. It needs no key.
func (a *API) PlanPool(ctx context.Context, c Call) (Answer, error) {
	called, cancel := context.WithTimeout(ctx, a.cfg.CallTimeout)
	defer cancel()
	m, err := a.peers.Earnings.GetPlanPool(called, &settlementv1.GetPlanPoolRequest{Month: variable(c.Rest)})
	if err != nil {
		return Answer{}, ofPeer(ctx, err)
	}
	factor := 1.0
	if m.GetEarnedNanoUsd() > 0 {
		factor = float64(m.GetPaidNanoUsd()) / float64(m.GetEarnedNanoUsd())
	}
	out, err := answer(http.StatusOK, struct {
		Month     string     `json:"month"`
		Pool      string     `json:"pool_usd_str"`
		Earned    string     `json:"earned_usd_str"`
		Paid      string     `json:"paid_usd_str"`
		Factor    float64    `json:"factor"`
		Providers int64      `json:"providers"`
		Through   string     `json:"through"`
		ClosedAt  *time.Time `json:"closed_at"`
	}{m.GetMonth(), usd(m.GetPoolNanoUsd()), usd(m.GetEarnedNanoUsd()), usd(m.GetPaidNanoUsd()), factor,
		m.GetProviders(), m.GetThrough(), moment(m.GetClosedAt())})
	if err == nil {
		out.Header = http.Header{"Cache-Control": {publicCache}}
	}
	return out, err
}

// Signers answers GET /api/v1/stats/signers: the addresses of the platform's keys. It needs no key.
func (a *API) Signers(ctx context.Context, _ Call) (Answer, error) {
	called, cancel := context.WithTimeout(ctx, a.cfg.CallTimeout)
	defer cancel()
	keys, err := a.peers.Earnings.ListSigners(called, &settlementv1.ListSignersRequest{})
	if err != nil {
		return Answer{}, ofPeer(ctx, err)
	}
	type key struct {
		Name    string `json:"name"`
		Address string `json:"address"`
	}
	list := make([]key, 0, len(keys.GetSigners()))
	for _, k := range keys.GetSigners() {
		list = append(list, key{k.GetName(), ethereum.Address(k.GetAddress()).String()})
	}
	out, err := answer(http.StatusOK, struct {
		Signers []key `json:"signers"`
	}{list})
	if err == nil {
		out.Header = http.Header{"Cache-Control": {publicCache}}
	}
	return out, err
}

// ExportEarnings begins the answer to GET /api/v1/provider/earnings.csv?from=&to=. What is wrong with the call is found
// before the first piece.
func (a *API) ExportEarnings(ctx context.Context, c Call) (*export.Export, error) {
	provider, err := a.keyOrSession(ctx, c)
	if err != nil {
		return nil, err
	}
	req := &settlementv1.ExportEarningsRequest{ProviderId: provider}
	if req.From, err = text(c.Query, "from", maxDay); err != nil {
		return nil, err
	}
	if req.To, err = text(c.Query, "to", maxDay); err != nil {
		return nil, err
	}
	translate := func(err error) error { return ofPeer(ctx, err) }
	stream, err := a.peers.Earnings.ExportEarnings(ctx, req)
	if err != nil {
		return nil, translate(err)
	}
	return export.New("earnings-"+req.GetFrom()+"-"+req.GetTo()+".csv", stream, translate)
}
