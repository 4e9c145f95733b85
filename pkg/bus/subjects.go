package bus

import "time"

// UsageStream keeps usage events, alone or in bundles: published by provider-hub, consumed by
// billing-ledger, settlement and the verifier. It holds seven days of usage or 2 GiB, about four million requests,
// whichever is less. What billing-ledger misses beyond that, the hubs publish again,
// because they keep everything until it is settled. What settlement misses, it takes from
// billing-ledger.
var UsageStream = StreamConfig{
	Name:     "USAGE",
	Subjects: []string{"usage.v1.>"},
	MaxAge:   7 * 24 * time.Hour,
	MaxBytes: 2 << 30,
}

// WorkReceiptStream keeps providers' receipts for requests that the hub which was given
// the receipt does not know, and void attempts: published by provider-hub, consumed by
// billing-ledger. Agents keep receipts too, until they are answered, so a day or 256 MiB
// suffices.
var WorkReceiptStream = StreamConfig{
	Name:     "RECEIPTS",
	Subjects: []string{"receipt.v1.>", "void.v1.>"},
	MaxAge:   24 * time.Hour,
	MaxBytes: 256 << 20,
}

// TrustStream keeps the verifier's last report of each provider, for as long as there is
// no newer one, so that a router that starts while no verifier runs has caps and lanes.
// The 192 MiB for further providers hold 3,000 reports of the largest size, and about
// 300,000 of three models. A full stream refuses reports of further providers, forgets
// none, and takes what changes.
var TrustStream = StreamConfig{
	Name:     "TRUST",
	Subjects: []string{SubjectTrustAll},
	LastOnly: true,
	MaxBytes: 256 << 20,
}

// AccountStream keeps what happened to providers and is told to the accounts of their users, and
// by which addresses providers are known:
// published by settlement and provider-hub, consumed by billing-ledger. Each producer keeps
// its events until billing-ledger has noted them, so a day or 64 MiB suffices.
var AccountStream = StreamConfig{
	Name:     "ACCOUNT",
	Subjects: []string{SubjectPayoutConfirmed, SubjectPenaltyCreated, SubjectStatusChanged, SubjectAddresses},
	MaxAge:   24 * time.Hour,
	MaxBytes: 64 << 20,
}

// Subjects of the facts that travel as core messages, and of AccountStream.
const (
	// SubjectPayoutConfirmed, SubjectPenaltyCreated and SubjectStatusChanged say what happened
	// to a provider, in AccountStream.
	SubjectPayoutConfirmed = "account.v1.payout.confirmed"
	SubjectPenaltyCreated  = "account.v1.penalty.created"
	SubjectStatusChanged   = "account.v1.provider.status_changed"
	// SubjectAddresses says by which addresses a provider is known, in AccountStream. It is for
	// billing-ledger alone: no account is told.
	SubjectAddresses = "account.v1.provider.addresses"
	// SubjectNotedSettlement and SubjectNotedHubs are where billing-ledger says which events of
	// AccountStream it has stored.
	SubjectNotedSettlement = "noted.v1.settlement"
	SubjectNotedHubs       = "noted.v1.hubs"
	// SubjectPresenceSync asks every hub for a full presence report.
	SubjectPresenceSync = "presence.sync.v1"
	// SubjectPresenceAll is the presence of all hubs.
	SubjectPresenceAll = "presence.v1.*"
	// SubjectAttemptsAll is the ended attempts of all hubs.
	SubjectAttemptsAll = "attempts.v1.*"
	// SubjectVoidPrefix begins the subjects of void attempts.
	SubjectVoidPrefix = "void.v1."
	// SubjectUsageLedger is where billing-ledger publishes the usage of requests whose
	// hub is lost, in UsageStream. No hub has the id "ledger".
	SubjectUsageLedger = "usage.v1.ledger"
	// SubjectUsagePrefix begins the subjects of usage.
	SubjectUsagePrefix = "usage.v1."
	// SubjectKeyChanged says that a consumer key has changed.
	SubjectKeyChanged = "keys.v1.changed"
	// SubjectPenalty says that a penalty has another state.
	SubjectPenalty = "penalty.v1.changed"
	// SubjectShapes is what requests looked like at the gateways.
	SubjectShapes = "shapes.v1.gateway"
	// SubjectClaims is usage that one verifier has consumed, for all replicas of it: each
	// probe needs the claim of its own request.
	SubjectClaims = "claims.v1.verifier"
	// SubjectWarmUp asks every hub to have a model loaded.
	SubjectWarmUp = "warmup.v1"
	// SubjectTrustAll is what the verifier says of all providers, in TrustStream.
	SubjectTrustAll = "trust.v1.*"
	// SubjectTrustSync asks the verifier for its reports of all providers.
	SubjectTrustSync = "trust.sync.v1"
)

// SubjectPresence is where a hub reports its sessions.
func SubjectPresence(hubID string) string { return "presence.v1." + hubID }

// SubjectAttempts is where a hub reports ended attempts.
func SubjectAttempts(hubID string) string { return "attempts.v1." + hubID }

// SubjectUsage is where a hub publishes usage, in UsageStream.
func SubjectUsage(hubID string) string { return "usage.v1." + hubID }

// SubjectSettled is where a hub learns which of its usage is settled.
func SubjectSettled(hubID string) string { return "settled.v1." + hubID }

// SubjectWorkReceipt is where a hub passes receipts on, in WorkReceiptStream.
func SubjectWorkReceipt(hubID string) string { return "receipt.v1." + hubID }

// SubjectVoid is where a hub says which attempts are void, in WorkReceiptStream.
func SubjectVoid(hubID string) string { return SubjectVoidPrefix + hubID }

// SubjectWorkReceiptDone is where a hub learns the verdicts on receipts.
func SubjectWorkReceiptDone(hubID string) string { return "receipted.v1." + hubID }

// SubjectTrust is where the verifier says what it makes of a provider, in TrustStream.
func SubjectTrust(providerID string) string { return "trust.v1." + providerID }
