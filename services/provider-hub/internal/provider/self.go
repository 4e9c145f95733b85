package provider

import (
	"context"
	"strings"
	"time"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
)

const (
	maxSummary = 500
	maxEmail   = 254
	maxUser    = 128
	// maxOverlap is how long a key may stay good beside the key that replaces it.
	maxOverlap = 7 * 24 * time.Hour
	// maxOwnKeys bounds the good keys of a provider that issues itself one.
	maxOwnKeys = 32

	// MaxChanges is how often within OftenWithin a provider may replace a key, its keys may
	// propose or change where earnings go and whose wallet owns the account, and its user may
	// change where earnings go.
	MaxChanges = 10
	// OftenWithin is the time over which MaxChanges counts.
	OftenWithin = 24 * time.Hour
)

// TooOften is the error of a call beyond MaxChanges within OftenWithin, counted since
// oldest.
func TooOften(what string, oldest, now time.Time) error {
	return fault.New(fault.Exhausted, fault.RateLimitExceeded, "%s at most %d times a day", what, MaxChanges).
		After(oldest.Add(OftenWithin).Sub(now))
}

// selfStore is what a provider's own calls need of a store.
type selfStore interface {
	// SignUp adds an account with a key in one transaction, and spends the proof. For a
	// user who has an account it returns that account, with fresh false, and keeps
	// nothing. It fails with already_exists when the address owns an account, and as
	// Spend.
	SignUp(ctx context.Context, a Account, k Key, by SignUpProof) (got Account, fresh bool, err error)
	// OfUser reads a user's account; ok is false when there is none.
	OfUser(ctx context.Context, user string) (a Account, ok bool, err error)
	// AddOwnKey keeps a further key. It fails with too_many_keys where limit keys are
	// good at its time, and with provider_not_found and account_frozen. Where replaces is
	// not zero, that key ends at the time that AddOwnKey returns: ends, or earlier if the
	// key ended before. Then one more key may be good, and the replaced key does not
	// count if it ends at once; and AddOwnKey fails with rate_limit_exceeded.
	AddOwnKey(ctx context.Context, k Key, limit int, replaces ids.KeyID, ends time.Time) (time.Time, error)
	// Holder looks up a key without drawing an epoch.
	Holder(ctx context.Context, hashes [][]byte, now time.Time) (c Credential, ok bool, err error)
}

// Holder returns the provider whose key has this digest, in whatever status. A key that a
// verdict revoked has a holder too, who must be able to read why, and while the removal
// lasts to ask for a review.
// It fails with invalid_api_key or key_revoked.
func (d *Directory) Holder(ctx context.Context, digest apikey.Digest) (Credential, error) {
	c, ok, err := d.store.Holder(ctx, d.secrets.Peppers.Hashes(digest), d.clock.Now())
	switch {
	case err != nil:
		return Credential{}, err
	case !ok:
		return Credential{}, invalidKey()
	case c.Revoked && !c.Expelled:
		return Credential{}, RevokedKey()
	}
	d.renew(ctx, digest, c)
	d.used(ctx, c)
	return c, nil
}

// OwnChange is what a provider changes of its account. Empty fields stay as they are.
type OwnChange struct {
	Beneficiary string
	// Owner is a wallet that has signed the challenge of Nonce.
	Owner, Nonce string
	Signature    []byte
}

// check returns the address of the beneficiary as it is kept; empty for none.
func (said OwnChange) check() (beneficiary string, err error) {
	if said.Beneficiary == "" && said.Owner == "" {
		return "", fault.New(fault.Invalid, fault.InvalidValue,
			"beneficiary_address or owner_address must be given").On("beneficiary_address")
	}
	if beneficiary, err = optionalAddress("beneficiary_address", said.Beneficiary); err != nil {
		return "", err
	}
	_, err = optionalAddress("owner_address", said.Owner)
	return beneficiary, err
}

// UpdateOwn proposes where earnings go, and whose wallet owns the account. Even the first
// address waits, because earnings are there before it is, and the holder of a leaked key
// would take them all. In an account that is bound to a wallet, a key alone does not
// propose where earnings go: the wallet must have signed too, and then they go there at
// once. The same call again changes nothing and succeeds. Besides as Holder it fails with
// invalid_value, with invalid_api_key where the wallet has not signed, with
// already_exists where the wallet or the account is bound, with rate_limit_exceeded, and
// with account_frozen for a provider that may not connect.
func (d *Directory) UpdateOwn(ctx context.Context, digest apikey.Digest, said OwnChange) (Account, error) {
	beneficiary, err := said.check()
	if err != nil {
		return Account{}, err
	}
	holder, err := d.Holder(ctx, digest)
	if err != nil {
		return Account{}, err
	}
	if err := holder.admissible(); err != nil {
		return Account{}, err
	}
	var proof *Proof
	if said.Owner != "" {
		proof, err = d.spent(ctx, said.Owner, said.Nonce, said.Signature)
		switch {
		case proof != nil && holder.says(proof.Address.String(), beneficiary):
			return holder.Account, nil // nothing to propose, whether the proof was spent or not
		case err != nil:
			return Account{}, err
		}
	}
	pay, own, err := d.asked(holder.KeyID, beneficiary, proof)
	if err != nil {
		return Account{}, err
	}
	return d.change(ctx, holder.ID, ByProvider, "", func(c *change) error {
		if err := c.account.Status.Admits(); err != nil {
			return err
		}
		if beneficiary != "" {
			if err := c.pay(pay); err != nil {
				return err
			}
		}
		if proof == nil {
			return nil
		}
		return c.proposeOwner(own)
	})
}

// asked makes the proposals of an update. The caller knows which of them were asked for.
func (d *Directory) asked(key ids.KeyID, beneficiary string, proof *Proof) (pay, own Proposal, err error) {
	signer := ""
	if proof != nil {
		signer = proof.Address.String()
	}
	pay = Proposal{Kind: ProposedBeneficiary, Address: beneficiary, Signer: signer, Key: key}
	own = Proposal{Kind: ProposedOwner, Address: signer, Signer: signer, Key: key}
	now := d.clock.Now()
	if pay.ID, err = ids.NewProposal(now, d.random); err != nil {
		return Proposal{}, Proposal{}, err
	}
	own.ID, err = ids.NewProposal(now, d.random)
	return pay, own, err
}

// says reports whether the wallet that signed owns the account or is proposed to, and
// whether earnings go to the beneficiary or are proposed to.
func (a *Account) says(signer, beneficiary string) bool {
	owns := !a.OwnerProvenAt.IsZero() && a.Owner == signer || a.OwnerProvenAt.IsZero() &&
		a.Proposed.Owner.Address == signer
	waits := a.Proposed.Beneficiary
	return owns && (beneficiary == "" || beneficiary == waits.Address && waits.Signer == signer ||
		beneficiary == a.Beneficiary && waits.ID.IsZero())
}

// spent returns a proof that nobody can show again. It fails as prove, without a proof.
// Where somebody has shown the proof before, it fails with invalid_api_key and returns
// the proof too.
func (d *Directory) spent(ctx context.Context, owner, nonce string, signature []byte) (*Proof, error) {
	proof, err := d.prove(owner, nonce, signature)
	if err != nil {
		return nil, err
	}
	return &proof, d.store.Spend(ctx, proof)
}

// Application is what a provider says when it asks for a review. An empty name keeps the
// account's.
type Application struct{ Name, Hardware, Email string }

// check fails with invalid_value.
func (said Application) check() error {
	for _, check := range []error{
		checkText("provider_name", said.Name, 0, maxName),
		checkText("hardware_summary", said.Hardware, 0, maxSummary),
		checkText("contact_email", said.Email, 0, maxEmail),
	} {
		if check != nil {
			return check
		}
	}
	if said.Email != "" && !strings.Contains(said.Email, "@") {
		return fault.New(fault.Invalid, fault.InvalidValue, "contact_email must be an e-mail address").On("contact_email")
	}
	return nil
}

// apply begins the review that an application asks for, or changes the application of the review that
// lasts.
func (c *change) apply(said Application) error {
	if err := c.review(); err != nil {
		return err
	}
	if said.Name != "" {
		c.account.Name = said.Name
	}
	c.account.Contact = Contact{Email: said.Email, Hardware: said.Hardware}
	return nil
}

// repeats returns nil where the account is in the review that the application asks for,
// and key_revoked otherwise.
func (said Application) repeats(a *Account) error {
	same := (said.Name == "" || said.Name == a.Name) && a.Contact == Contact{Email: said.Email, Hardware: said.Hardware}
	if a.Status == UnderReview && same {
		return nil
	}
	return RevokedKey()
}

// RequestReview asks an operator to look at the account. A second call only changes the
// application. A key that a verdict revoked asks only while the removal lasts, which its
// request ends. Behind that it changes nothing: the same request again succeeds while the
// review lasts, and any other fails with key_revoked. RequestReview fails as Holder, and
// with transition_not_allowed.
func (d *Directory) RequestReview(ctx context.Context, digest apikey.Digest, said Application) (Account, error) {
	if err := said.check(); err != nil {
		return Account{}, err
	}
	c, err := d.Holder(ctx, digest)
	if err != nil {
		return Account{}, err
	}
	revoked := c.Revoked
	return d.change(ctx, c.ID, ByProvider, "", func(c *change) error {
		a := c.account
		if revoked && !a.Removal.Any() {
			return said.repeats(a)
		}
		return c.apply(said)
	})
}

// RotateKey makes a further key, and ends the key that was shown after the overlap, at
// the time that it returns. It fails as Holder, with invalid_value, account_frozen,
// too_many_keys and rate_limit_exceeded. A rotation without overlap never fails with
// too_many_keys.
func (d *Directory) RotateKey(
	ctx context.Context, digest apikey.Digest, name string, overlap time.Duration,
) (Key, string, time.Time, error) {
	fail := func(err error) (Key, string, time.Time, error) { return Key{}, "", time.Time{}, err }
	if overlap < 0 || overlap > maxOverlap {
		return fail(fault.New(fault.Invalid, fault.InvalidValue, "overlap_seconds must be 0 to %d",
			int64(maxOverlap/time.Second)).On("overlap_seconds"))
	}
	c, err := d.Holder(ctx, digest)
	if err != nil {
		return fail(err)
	}
	if err := c.admissible(); err != nil {
		return fail(err)
	}
	k, text, err := d.newKey(c.ID, name)
	if err != nil {
		return fail(err)
	}
	ends, err := d.store.AddOwnKey(ctx, k, maxOwnKeys, c.KeyID, k.MadeAt.Add(overlap))
	if err != nil {
		return fail(err)
	}
	return k, text, ends, nil
}

// IssueOwnKey makes a further key for a provider's user. It fails with
// provider_not_found, account_frozen, too_many_keys and invalid_value.
func (d *Directory) IssueOwnKey(ctx context.Context, id ids.ProviderID, name string) (Key, string, error) {
	k, text, err := d.newKey(id, name)
	if err != nil {
		return Key{}, "", err
	}
	if _, err := d.store.AddOwnKey(ctx, k, maxOwnKeys, ids.KeyID{}, time.Time{}); err != nil {
		return Key{}, "", err
	}
	return k, text, nil
}
