// Package provider keeps the accounts of providers and their keys: who may connect, under
// which name, whether they serve consumers, and why.
//
// A status changes only along the table in status.go, by the rules in life.go. The
// conditions are evaluated while the account's row is locked. Every change and
// confirmation leaves a line in the history, and lines are only ever added. A key is
// shown once, when it is issued; only the peppered hash of its digest is kept. A wallet
// signs a challenge that is good once, for 5 minutes (wallet.go). An owner's address is a
// claim that binds nothing and blocks nobody until its wallet has signed; a proven wallet
// has one account, for good. A key may have leaked, so it only proposes where earnings go
// and whose wallet owns the account (proposal.go). Verdicts remove a provider from the
// network, and their reversals let it back in (removal.go). A suspension has causes, and
// lasts until the last one ends (suspension.go). Whom settlement pays, and since when
// earnings go where they go, is in paying.go; what a wallet signs for money is in act.go. The
// verifier's word on a benchmark and settlement's on collateral carry revisions
// (report.go). A reference is never active (reference.go). A vendor of gateway models is active by
// the platform's word alone (vendor.go).
//
// Bounds: names are 1 to 64 printable characters, regions at most 32. A page has at most
// 200 lines. A provider issues itself keys up to 32 good ones at a time, rotates a key at
// most 10 times a day, and proposes as often. At most two proposals wait, and at most 16
// verdicts stand against a provider. Of challenges only the nonces that an owner has
// spent are kept, for 10 minutes after the challenge was made. 128 machines of a provider
// are kept and 64 shown. A key is forgotten 35 days after its end, unless the history
// names it or a removal may give it back.
package provider

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/siwe"
)

const (
	maxName        = 64
	maxRegion      = 32
	maxReason      = 200
	maxIdempotency = 128
	// maxOffset bounds how far into a list a page may begin, because the database reads
	// everything before it.
	maxOffset = 100_000
	// DefaultPageSize is the length of a page when the caller asks for none.
	DefaultPageSize = 50
	// MaxPageSize bounds a page.
	MaxPageSize = 200
)

// Account is a provider.
type Account struct {
	ID        ids.ProviderID
	Name      string
	Status    Status
	Region    string
	CreatedAt time.Time
	// Owner and Beneficiary are EIP-55 addresses; empty for none. The owner's is only a
	// claim while OwnerProvenAt is zero. BeneficiaryAt is when the beneficiary last
	// changed.
	Owner, Beneficiary           string
	OwnerProvenAt, BeneficiaryAt time.Time
	// Payee is what settlement asks beside the addresses.
	Payee Payee
	// Suspensions are the causes of a suspension.
	Suspensions Suspensions
	// Proposed are the changes that do not count yet.
	Proposed Proposals
	Contact  Contact
	Facts    Facts
	// Times of the present status; zero where they do not belong to it. ProbationEndsAt
	// is zero once the probation was judged.
	ActiveSince, ProbationEndsAt time.Time
	// Reference reports that the account is a reference of the platform. WasActive
	// reports that it is active or has ever been.
	Reference, WasActive bool
	// Vendor reports whether the account is a vendor of gateway models. It never changes.
	Vendor bool
	// Removal is why verdicts keep the account rejected; zero where none does.
	Removal Removal
	// Rest is the remainder of the probation that a removal ended.
	Rest ProbationRest
	// ReviewRequestedAt and RejectedAt are the latest of their kind.
	ReviewRequestedAt, RejectedAt time.Time
	// Uptime24h and Uptime30d were measured some minutes ago; nil is not known.
	Uptime24h, Uptime30d *float64
}

// Contact is what a provider tells operators about itself.
type Contact struct{ Email, Hardware string }

// Key is what is kept of a provider key.
type Key struct {
	ID       ids.KeyID
	Provider ids.ProviderID
	Name     string
	Hash     apikey.Stored
	Shown    string
	MadeAt   time.Time
}

// Credential is what the store knows of the key that an agent showed, or of its wallet.
// Epoch is fresh with every look-up for a connection.
type Credential struct {
	Account
	// KeyID is zero for a wallet.
	KeyID ids.KeyID
	// Hash is the one by which the key was found.
	Hash apikey.Stored
	// Revoked reports that the key has ended. Expelled reports that a verdict revoked it:
	// such a key still reads the account, and asks for a review while the removal lasts.
	Revoked, Expelled bool
	// KeyExpires is when a key ends because another one follows it; zero is never.
	KeyExpires time.Time
	// Used is when the key was last shown before, exact to usedEvery; zero for never.
	Used  time.Time
	Epoch int64
}

// Standing is the present state of the key or wallet that a session was made with.
type Standing struct {
	ProviderID ids.ProviderID
	// KeyID is zero for a provider without a key.
	KeyID     ids.KeyID
	Revoked   bool
	Status    Status
	Probation bool
	Uptime30d *float64
	Reference bool
	// ActiveSince is zero while the provider is not active.
	ActiveSince time.Time
	// Machines is how many machines of the provider are connected to any hub; 0 where nobody
	// counted them.
	Machines int
}

// Standing is what sessions of the account may know.
func (a *Account) Standing() Standing {
	return Standing{ProviderID: a.ID, Status: a.Status, Probation: a.InProbation(), Uptime30d: a.Uptime30d,
		Reference: a.Reference, ActiveSince: a.ActiveSince}
}

// Store keeps accounts and keys.
type Store interface {
	// Create adds an account. With an idempotency key that was used before it returns
	// that account instead.
	Create(ctx context.Context, a Account, idempotencyKey string) (Account, error)
	// Get reads an account. It fails with provider_not_found.
	Get(ctx context.Context, id ids.ProviderID) (Account, error)
	// List is one page, oldest first, and the number of all accounts.
	List(ctx context.Context, offset, limit int) ([]Account, int, error)
	// Change locks an account's row, gives apply the account as it is kept, which may be
	// behind what counts (see Account.Settled), and keeps the result with the entries. It
	// fails with provider_not_found or as apply does.
	Change(ctx context.Context, id ids.ProviderID, apply func(*Account) ([]Entry, error)) (Account, error)
	// History is one page of entries, newest first, and the number of all entries.
	History(ctx context.Context, id ids.ProviderID, offset, limit int) ([]Entry, int, error)
	// AddKey keeps a key. It fails with provider_not_found.
	AddKey(ctx context.Context, k Key) error
	// RevokeKey ends a key. It fails with key_not_found.
	RevokeKey(ctx context.Context, id ids.KeyID) error
	// AddWarmUp records that an operator asks for a model to be loaded, of all providers where
	// id is zero.
	AddWarmUp(ctx context.Context, model string, id ids.ProviderID) error
	// Credential looks up a key by one or two hashes of its text, and draws an epoch; ok is false for an
	// unknown key.
	Credential(ctx context.Context, hashes [][]byte, now time.Time) (c Credential, ok bool, err error)
	// Entrant reads an account with a fresh epoch. It fails with provider_not_found.
	Entrant(ctx context.Context, id ids.ProviderID) (Credential, error)
	// RenewHash puts a hash of the same text, under a newer pepper, in the place of another.
	RenewHash(ctx context.Context, id ids.KeyID, from apikey.Hash, to apikey.Stored) error
	// Standings reads the state of many keys and providers. Unknown ones are left out.
	Standings(ctx context.Context, keys []ids.KeyID, providers []ids.ProviderID, now time.Time) ([]Standing, error)

	// ChangeByVerdict is Change with what is kept of a verdict, and keeps the verdict as
	// apply left it. A verdict that begins to stand revokes the keys that are good now.
	// The reversal of the last verdict that stands makes the keys good again which the
	// verdicts of the removal revoked, unless they have expired by now or were revoked
	// since.
	ChangeByVerdict(ctx context.Context, id ids.ProviderID, verdict VerdictID, now time.Time,
		apply func(*Account, *Verdict) ([]Entry, error)) (Account, error)

	// Payees reads accounts by their ids. Unknown ones are left out.
	Payees(ctx context.Context, list []ids.ProviderID) ([]Account, error)
	// OfOwner reads the account that a wallet is proven to own; ok is false for none.
	OfOwner(ctx context.Context, address string) (a Account, ok bool, err error)

	selfStore
	keyStore
	proposalStore
	walletStore
	sweepStore
	presenceStore
	identityStore
}

// Directory holds the accounts of all providers. It is safe for concurrent use.
type Directory struct {
	store   Store
	secrets Secrets
	site    Site
	// challenges recognize the fleet's own challenges. The first one makes them.
	challenges []siwe.Sealer
	clock      clock.Clock
	random     io.Reader
}

// Secrets are what a directory hashes with.
type Secrets struct {
	Peppers apikey.Peppers
	// Identities is the secret of identities. It stays when the pepper changes, because identities
	// are kept.
	Identities []byte
	// RenewFailed is called for each hash that could not be renewed. It may be nil.
	RenewFailed func()
}

// SecretsOf are the secrets of a fleet that has never changed its pepper.
func SecretsOf(pepper apikey.Pepper) Secrets {
	return Secrets{Peppers: apikey.Only(pepper), Identities: IdentitySecret(pepper)}
}

// NewDirectory returns the accounts that store keeps. site is the site that wallets sign
// for.
func NewDirectory(store Store, secrets Secrets, site Site, c clock.Clock, random io.Reader) *Directory {
	d := &Directory{store: store, secrets: secrets, site: site, clock: c, random: random}
	for pepper := range secrets.Peppers.Each {
		d.challenges = append(d.challenges, siwe.NewSealer(challengeSecret(pepper)))
	}
	return d
}

// Create opens an account in status pending. The same idempotency key returns the first
// account; with another name, or where the key is a vendor's, it fails with
// idempotency_key_reused.
func (d *Directory) Create(ctx context.Context, name, region, idempotencyKey string) (Account, error) {
	if err := checkIdentity(name, region, idempotencyKey); err != nil {
		return Account{}, err
	}
	want, err := d.account(name, region)
	if err != nil {
		return Account{}, err
	}
	got, err := d.store.Create(ctx, want, idempotencyKey)
	if err != nil {
		return Account{}, err
	}
	if got.Vendor || got.Name != name || got.Region != region { // vendors have their keys in the same column
		return Account{}, reused()
	}
	return got, nil
}

func checkIdentity(name, region, idempotencyKey string) error {
	if err := checkText("name", name, 1, maxName); err != nil {
		return err
	}
	if err := checkText("region", region, 0, maxRegion); err != nil {
		return err
	}
	return checkText("idempotency_key", idempotencyKey, 0, maxIdempotency)
}

func (d *Directory) account(name, region string) (Account, error) {
	now := d.clock.Now()
	id, err := ids.NewProvider(now, d.random)
	if err != nil {
		return Account{}, err
	}
	return Account{ID: id, Name: name, Status: Pending, Region: region, CreatedAt: now}, nil
}

func reused() error {
	return fault.New(fault.Precondition, fault.IdempotencyKeyReused,
		"the idempotency key was used for another provider").On("idempotency_key")
}

// Get reads one account. It fails with provider_not_found.
func (d *Directory) Get(ctx context.Context, id ids.ProviderID) (Account, error) {
	return d.store.Get(ctx, id)
}

// Page is one page of a list.
type Page[T any] struct {
	List           []T
	Total          int
	Number, Length int
}

// PageOf reads a page of a list of another package, by the rules of the lists here.
func PageOf[T any](number, length int, read func(offset, limit int) ([]T, int, error)) (Page[T], error) {
	return page(number, length, read)
}

// page reads a page. Pages count from 1; 0 stands for the first page and for the default
// length.
func page[T any](number, length int, read func(offset, limit int) ([]T, int, error)) (Page[T], error) {
	if length < 0 || length > MaxPageSize {
		return Page[T]{}, fault.New(fault.Invalid, fault.InvalidValue, "page_size is at most %d", MaxPageSize).On("page_size")
	}
	if length == 0 {
		length = DefaultPageSize
	}
	if number < 0 || number > maxOffset/length+1 {
		return Page[T]{}, fault.New(fault.Invalid, fault.InvalidValue, "page is out of range").On("page")
	}
	number = max(number, 1)
	list, total, err := read((number-1)*length, length)
	if err != nil {
		return Page[T]{}, err
	}
	return Page[T]{List: list, Total: total, Number: number, Length: length}, nil
}

// List is a page of accounts, oldest first.
func (d *Directory) List(ctx context.Context, number, length int) (Page[Account], error) {
	return page(number, length, func(offset, limit int) ([]Account, int, error) {
		return d.store.List(ctx, offset,
			limit)
	})
}

// History is a page of what happened to a provider, newest first. It fails with
// provider_not_found.
func (d *Directory) History(ctx context.Context, id ids.ProviderID, number, length int) (Page[Entry], error) {
	if _, err := d.store.Get(ctx, id); err != nil {
		return Page[Entry]{}, err
	}
	return page(number, length, func(offset, limit int) ([]Entry, int, error) {
		return d.store.History(ctx, id, offset,
			limit)
	})
}

// Now is the time by which probations and benchmarks are judged.
func (d *Directory) Now() time.Time { return d.clock.Now() }

// change settles an account's proposals, applies what to the account, and then what
// follows by itself, in one transaction.
func (d *Directory) change(
	ctx context.Context, id ids.ProviderID, by Actor, reason string, what func(*change) error,
) (Account, error) {
	a, _, err := d.stroke(ctx, id, by, reason, what)
	return a, err
}

// stroke is change, and reports whether anything changed.
func (d *Directory) stroke(
	ctx context.Context, id ids.ProviderID, by Actor, reason string, what func(*change) error,
) (a Account, changed bool, err error) {
	if err := checkText("reason", reason, 0, maxReason); err != nil {
		return Account{}, false, err
	}
	begun := change{by: by.named(ctx), reason: reason, now: d.clock.Now()}
	a, err = d.store.Change(ctx, id, func(a *Account) ([]Entry, error) {
		entries, err := begun.of(a, what)
		changed = len(entries) > 0
		return entries, err
	})
	return a, changed && err == nil, err
}

// of changes an account whose row is locked: it settles proposals, and applies what and
// then what follows by itself. A transaction that is repeated calls it again.
func (c change) of(a *Account, what func(*change) error) ([]Entry, error) {
	c.account = a
	c.settle()
	if err := what(&c); err != nil {
		return nil, err
	}
	if err := c.follow(); err != nil {
		return nil, err
	}
	return c.entries, nil
}

// SetStatus moves a provider to a status in an operator's name. The same status again
// changes nothing. Active confirms nothing: it fails where a fact is missing. SetStatus
// fails with provider_not_found or transition_not_allowed.
func (d *Directory) SetStatus(ctx context.Context, id ids.ProviderID, to Status, reason string) (Account, error) {
	return d.change(ctx, id, ByOperator, reason, func(c *change) error { return c.to(to) })
}

// Confirmation is an operator's word on facts of activation; nil leaves a fact as it is.
// The benchmark is the verifier's, see ReportBenchmark.
type Confirmation struct{ Collateral, GPUWaived *bool }

// Confirm records a confirmation, and the status follows by itself. It fails with
// provider_not_found.
func (d *Directory) Confirm(
	ctx context.Context, id ids.ProviderID, given Confirmation, reason string,
) (Account, error) {
	return d.change(ctx, id, ByOperator, reason, func(c *change) error {
		for _, f := range []struct {
			given *bool
			apply func(bool) error
		}{{given.Collateral, c.collateral}, {given.GPUWaived, c.waiver}} {
			if f.given == nil {
				continue
			}
			if err := f.apply(*f.given); err != nil {
				return err
			}
		}
		return nil
	})
}

// IssueKey makes a key and returns its text, which is kept nowhere.
func (d *Directory) IssueKey(ctx context.Context, id ids.ProviderID, name string) (Key, string, error) {
	a, err := d.store.Get(ctx, id)
	if err == nil {
		err = keyless(&a)
	}
	if err != nil {
		return Key{}, "", err
	}
	k, text, err := d.newKey(id, name)
	if err != nil {
		return Key{}, "", err
	}
	if err := d.store.AddKey(ctx, k); err != nil {
		return Key{}, "", err
	}
	return k, text, nil
}

// keyless refuses a provider key for a vendor, because whoever held one could serve gateway models by
// an agent.
func keyless(a *Account) error {
	if !a.Vendor {
		return nil
	}
	return fault.New(fault.Precondition, fault.TransitionNotAllowed,
		"a vendor has no keys, because hubs call its server").On("provider_id")
}

func (d *Directory) newKey(id ids.ProviderID, name string) (Key, string, error) {
	if err := checkText("name", name, 0, maxName); err != nil {
		return Key{}, "", err
	}
	text, err := apikey.Generate(apikey.Provider, d.random)
	if err != nil {
		return Key{}, "", err
	}
	now := d.clock.Now()
	keyID, err := ids.NewKey(now, d.random)
	if err != nil {
		return Key{}, "", err
	}
	hash := d.secrets.Peppers.Hash(apikey.Sum(text))
	return Key{ID: keyID, Provider: id, Name: name, Hash: hash, Shown: apikey.Shown(text), MadeAt: now}, text, nil
}

// RevokeKey ends a key for ever. It fails with key_not_found.
func (d *Directory) RevokeKey(ctx context.Context, id ids.KeyID) error {
	return d.store.RevokeKey(ctx, id)
}

// RecordWarmUp records that an operator asks for a model to be loaded, by a provider or, for a zero
// id, by all. It is called before the providers are asked, because asking cannot be taken back.
func (d *Directory) RecordWarmUp(ctx context.Context, model string, id ids.ProviderID) error {
	return d.store.AddWarmUp(ctx, model, id)
}

// CheckKey refuses a text that has not the form of a provider key, its checksum included,
// with invalid_api_key. It makes no look-up.
func CheckKey(key string) error {
	if prefix, ok := apikey.Parse(key); !ok || prefix != apikey.Provider {
		return invalidKey()
	}
	return nil
}

// Authenticate returns the provider whose key an agent showed, with a fresh epoch. It
// fails with invalid_api_key, key_revoked or, for a provider that may not connect, with
// account_frozen. A text that cannot be a provider key costs no look-up. A hash of an older pepper
// is renewed.
func (d *Directory) Authenticate(ctx context.Context, key string) (Credential, error) {
	if err := CheckKey(key); err != nil {
		return Credential{}, err
	}
	digest := apikey.Sum(key)
	c, ok, err := d.store.Credential(ctx, d.secrets.Peppers.Hashes(digest), d.clock.Now())
	if err != nil {
		return Credential{}, fmt.Errorf("look up a provider key: %w", err)
	}
	if !ok {
		return Credential{}, invalidKey()
	}
	d.renew(ctx, digest, c)
	d.used(ctx, c)
	return c, c.admissible()
}

// renewWait is how long a look-up waits for the renewal of a hash, whose row others may have locked.
const renewWait = 500 * time.Millisecond

// renew hashes a key again whose hash is of an older pepper. The key is good either way. A hash that
// is not renewed now is counted as one of the older pepper, and the next look-up tries again.
func (d *Directory) renew(ctx context.Context, digest apikey.Digest, c Credential) {
	if to, due := d.secrets.Peppers.Renewed(digest, c.Hash); due && (!c.Revoked || c.Expelled) {
		soon, stop := context.WithTimeout(ctx, renewWait)
		defer stop()
		if d.store.RenewHash(soon, c.KeyID, c.Hash.Hash, to) != nil && d.secrets.RenewFailed != nil {
			d.secrets.RenewFailed()
		}
	}
}

// admissible says why a credential lets nobody connect. Of a key that a verdict revoked
// it names the removal while that lasts, because the key may be good again.
func (c *Credential) admissible() error {
	if c.Revoked && !c.Expelled {
		return RevokedKey()
	}
	if c.Removal.Any() {
		return fault.New(fault.Denied, fault.AccountFrozen, "this provider was removed from the network")
	}
	if err := c.Status.Admits(); err != nil {
		return err
	}
	if c.Revoked {
		return RevokedKey()
	}
	return nil
}

// Admits says, with account_frozen, why a provider of a status may neither connect nor
// change anything.
func (s Status) Admits() error {
	switch s {
	case Suspended:
		return fault.New(fault.Denied, fault.AccountFrozen, "this provider is suspended")
	case Rejected:
		return fault.New(fault.Denied, fault.AccountFrozen, "this provider's application was rejected")
	case Pending, UnderReview, Approved, Activating, Active:
	}
	return nil
}

// Standings reads the state of the keys that sessions were made with, and of the
// providers of sessions without a key.
func (d *Directory) Standings(ctx context.Context, keys []ids.KeyID, providers []ids.ProviderID) ([]Standing, error) {
	return d.store.Standings(ctx, keys, providers, d.clock.Now())
}

func invalidKey() error {
	return fault.New(fault.Unauthenticated, fault.InvalidAPIKey, "this is no provider key")
}

// RevokedKey is the error of a key that has ended.
func RevokedKey() error {
	return fault.New(fault.Unauthenticated, fault.KeyRevoked, "this provider key was revoked, or another one followed it")
}

func checkText(field, text string, low, high int) error {
	n := utf8.RuneCountInString(text)
	if !utf8.ValidString(text) || n < low || n > high || strings.TrimSpace(text) != text ||
		strings.ContainsFunc(text, unprintable) {
		return fault.New(fault.Invalid, fault.InvalidValue, "%s must be %d to %d printable characters", field, low,
			high).On(field)
	}
	return nil
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) }
