package operator

import (
	"net/http"
	"regexp"
	"slices"
)

// Role says what a caller may do.
type Role string

// The roles. First is that of a bootstrap token.
const (
	Viewer    Role = "viewer"
	Support   Role = "support"
	Treasurer Role = "treasurer"
	Admin     Role = "admin"
	First     Role = "first"
)

// Permission is a kind of call, which some roles may make.
type Permission string

// The permissions.
const (
	// SignIn needs no token: whoever calls shows a secret in the body, or has a page send the cookie
	// of its session.
	SignIn Permission = "sign in"
	// SignOut ends the caller's own session.
	SignOut Permission = "sign out"
	// MakeFirst makes the first operator.
	MakeFirst Permission = "make the first operator"
	// Read changes nothing.
	Read Permission = "read"
	// Care is for accounts: goodwill, plans, limits, freezes, keys that are revoked.
	Care Permission = "care"
	// Refund gives back what a consumer paid.
	Refund Permission = "refund"
	// Pay is for what providers get and stake, for deposits, and for terms.
	Pay Permission = "pay"
	// Approve is consent to a payout, and the payment of a vendor. An operator who became active
	// within the last 24 hours may not give it.
	Approve Permission = "approve"
	// Run is everything else: providers, models, verification, chains, accounts and keys that
	// are made.
	Run Permission = "run"
	// Staff is for operators themselves. Only a person does it, or a bootstrap token under
	// break-glass: a machine that may invite could make the two persons that a large payout needs.
	Staff Permission = "staff"
)

// may is what each role may do.
var may = map[Role][]Permission{
	Viewer:    {SignOut, Read},
	Support:   {SignOut, Read, Care, Refund},
	Treasurer: {SignOut, Read, Refund, Pay, Approve},
	Admin:     {SignOut, Read, Care, Refund, Pay, Approve, Run, Staff, MakeFirst},
	First:     {MakeFirst},
}

// needs has the permission that each route needs. A route that is not in it is refused, whoever calls.
var needs = map[string]Permission{
	"POST /api/v1/admin/session":           SignIn,
	"POST /api/v1/admin/session/refresh":   SignIn,
	"POST /api/v1/admin/operators/accept":  SignIn,
	"POST /api/v1/admin/operators/confirm": SignIn,
	"DELETE /api/v1/admin/session":         SignOut,
	"POST /api/v1/admin/operators/first":   MakeFirst,

	"GET /api/v1/admin/acts":   Read,
	"GET /api/v1/admin/health": Read,

	"GET /api/v1/admin/operators":                      Read,
	"POST /api/v1/admin/operators":                     Staff,
	"PATCH /api/v1/admin/operators/{operator_id}":      Staff,
	"POST /api/v1/admin/operators/{operator_id}/reset": Staff,
	"POST /api/v1/admin/operators/{operator_id}/end":   Staff,

	"GET /api/v1/admin/accounts":                                              Read,
	"POST /api/v1/admin/accounts":                                             Run,
	"GET /api/v1/admin/accounts/{account_id}":                                 Read,
	"GET /api/v1/admin/accounts/{account_id}/details":                         Read,
	"GET /api/v1/admin/accounts/{account_id}/checkouts":                       Read,
	"GET /api/v1/admin/accounts/{account_id}/checkout-refunds":                Read,
	"GET /api/v1/admin/accounts/{account_id}/freezes":                         Read,
	"GET /api/v1/admin/accounts/{account_id}/plan-invoices":                   Read,
	"GET /api/v1/admin/accounts/{account_id}/terms":                           Read,
	"GET /api/v1/admin/enterprise-contacts":                                   Read,
	"POST /api/v1/admin/enterprise-contacts/{contact_id}/answer":              Care,
	"POST /api/v1/admin/accounts/{account_id}/credit":                         Care,
	"PUT /api/v1/admin/accounts/{account_id}/limits":                          Care,
	"PUT /api/v1/admin/accounts/{account_id}/plan":                            Care,
	"PUT /api/v1/admin/accounts/{account_id}/state":                           Care,
	"POST /api/v1/admin/accounts/{account_id}/freezes":                        Care,
	"POST /api/v1/admin/accounts/{account_id}/freezes/lift":                   Care,
	"DELETE /api/v1/admin/keys/{key_id}":                                      Care,
	"POST /api/v1/admin/accounts/{account_id}/keys":                           Run,
	"POST /api/v1/admin/accounts/{account_id}/refunds":                        Refund,
	"POST /api/v1/admin/accounts/{account_id}/checkouts/{checkout_id}/refund": Refund,
	"POST /api/v1/admin/plan-invoices/{invoice_id}/refund":                    Refund,
	"PUT /api/v1/admin/accounts/{account_id}/terms":                           Pay,

	"GET /api/v1/admin/requests/{request_id}": Read,
	"GET /api/v1/admin/ledger/accounts":       Read,
	"GET /api/v1/admin/ledger/entries":        Read,
	"GET /api/v1/admin/ledger/invariants":     Read,

	"GET /api/v1/admin/held-earnings":                            Read,
	"POST /api/v1/admin/held-earnings/release":                   Pay,
	"POST /api/v1/admin/held-earnings/forfeit":                   Pay,
	"GET /api/v1/admin/batches":                                  Read,
	"POST /api/v1/admin/batches/{day}/allow":                     Pay,
	"GET /api/v1/admin/earnings/blocks":                          Read,
	"POST /api/v1/admin/earnings/blocks/{provider_id}/lift":      Pay,
	"GET /api/v1/admin/payouts":                                  Read,
	"POST /api/v1/admin/payouts/{payout_id}/approve":             Approve,
	"POST /api/v1/admin/payouts/{payout_id}/cancel":              Pay,
	"POST /api/v1/admin/payouts/{payout_id}/cancel-on-chain":     Pay,
	"GET /api/v1/admin/vendors/balances":                         Read,
	"POST /api/v1/admin/vendors/{vendor_id}/payments":            Approve,
	"GET /api/v1/admin/penalties":                                Read,
	"POST /api/v1/admin/penalties/{penalty_id}/resolve":          Pay,
	"GET /api/v1/admin/collateral/refunds":                       Read,
	"POST /api/v1/admin/collateral/refunds/{refund_id}/paid":     Pay,
	"GET /api/v1/admin/transfers":                                Read,
	"POST /api/v1/admin/transfers/match":                         Pay,
	"POST /api/v1/admin/transfers/return":                        Pay,
	"GET /api/v1/admin/reconciliation":                           Read,
	"GET /api/v1/admin/reserves":                                 Read,
	"GET /api/v1/admin/chains":                                   Read,
	"POST /api/v1/admin/chains/{chain_id}/halt":                  Run,
	"GET /api/v1/admin/chains/{chain_id}/adoption":               Read,
	"POST /api/v1/admin/chains/{chain_id}/adoption":              Run,
	"POST /api/v1/admin/chains/{chain_id}/calls/cancel":          Run,
	"GET /api/v1/admin/sending-halts":                            Read,
	"POST /api/v1/admin/sending-halts/{chain_id}/lift":           Run,
	"GET /api/v1/admin/providers":                                Read,
	"POST /api/v1/admin/providers":                               Run,
	"GET /api/v1/admin/providers/{provider_id}":                  Read,
	"GET /api/v1/admin/providers/{provider_id}/changes":          Read,
	"GET /api/v1/admin/providers/{provider_id}/collateral":       Read,
	"GET /api/v1/admin/providers/{provider_id}/keys":             Read,
	"POST /api/v1/admin/providers/{provider_id}/keys":            Run,
	"GET /api/v1/admin/providers/{provider_id}/routing":          Read,
	"POST /api/v1/admin/providers/{provider_id}/qualification":   Run,
	"POST /api/v1/admin/providers/{provider_id}/reference":       Run,
	"POST /api/v1/admin/providers/{provider_id}/status":          Run,
	"POST /api/v1/admin/providers/{provider_id}/unbind":          Run,
	"DELETE /api/v1/admin/provider-keys/{key_id}":                Run,
	"GET /api/v1/admin/external-endpoints":                       Read,
	"POST /api/v1/admin/external-endpoints/{endpoint_id}/state":  Run,
	"GET /api/v1/admin/vendors":                                  Read,
	"POST /api/v1/admin/vendors":                                 Run,
	"PATCH /api/v1/admin/vendors/{provider_id}":                  Run,
	"PUT /api/v1/admin/models/{model_id}":                        Run,
	"GET /api/v1/admin/models/{model_id}/changes":                Read,
	"POST /api/v1/admin/models/{model_id}/changes":               Run,
	"DELETE /api/v1/admin/models/{model_id}/changes/{change_id}": Run,
	"PUT /api/v1/admin/model-files/{model_id}":                   Run,
	"POST /api/v1/admin/warmups":                                 Run,

	"GET /api/v1/admin/verification/calibrations":                       Read,
	"POST /api/v1/admin/verification/calibrations":                      Run,
	"POST /api/v1/admin/verification/benchmarks":                        Run,
	"GET /api/v1/admin/verification/effects":                            Read,
	"POST /api/v1/admin/verification/effects/{effect_id}/retry":         Run,
	"GET /api/v1/admin/verification/observations":                       Read,
	"GET /api/v1/admin/verification/offerings":                          Read,
	"GET /api/v1/admin/verification/offerings/{provider_id}/{model_id}": Read,
	"GET /api/v1/admin/verification/penalties":                          Read,
	"POST /api/v1/admin/verification/penalties":                         Run,
	"GET /api/v1/admin/verification/references":                         Read,
	"GET /api/v1/admin/verification/verdicts":                           Read,
	"POST /api/v1/admin/verification/verdicts/{verdict_id}/approve":     Run,
	"GET /api/v1/admin/verification/verdicts/{verdict_id}/evidence":     Read,
	"POST /api/v1/admin/verification/void":                              Run,
}

// variable is a variable of a pattern with what it matches.
var variable = regexp.MustCompile(`\{(\w+)=[^}]*\}`)

// Open reports whether a route needs no token.
func Open(method, path string) bool { return needs[method+" "+path] == SignIn }

// permissionOf returns the permission that a route of a pattern needs, in which a variable stands
// as {name} or {name=…}. HEAD needs what GET needs.
func permissionOf(method, pattern string) (p Permission, ok bool) {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	p, ok = needs[method+" "+variable.ReplaceAllString(pattern, "{$1}")]
	return p, ok
}

// May reports whether a role may call a route of a pattern.
func (r Role) May(method, pattern string) bool {
	p, ok := permissionOf(method, pattern)
	return ok && (p == SignIn || slices.Contains(may[r], p))
}

// ParseRole reads a role that an operator or a machine may have.
func ParseRole(text string) (Role, bool) {
	r := Role(text)
	return r, r != First && may[r] != nil
}
