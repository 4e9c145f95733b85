package mail

import (
	"fmt"

	"svc.internal/services/billing-ledger/internal/user"
)

// compose writes a letter. Its links lead to pages of the console and have the token behind a #,
// which browsers send to no server, so that no log has it.
func compose(l Letter, site, token string) (Message, error) {
	m := Message{Kind: l.Kind, To: string(l.To)}
	switch l.Kind {
	case user.ConfirmLetter:
		m.Subject = "Confirm your e-mail address"
		m.Text = fmt.Sprintf(`Somebody, probably you, opened an account with this e-mail address.

To confirm the address, open this page within 24 hours:
%s/app/confirm#token=%s

Programs post the token to /api/v1/user/email/confirm:
%s

If it was not you, do nothing. The account stays unconfirmed.
`, site, token, token)
	case user.ResetLetter:
		m.Subject = "Set a new password"
		m.Text = fmt.Sprintf(`Somebody, probably you, asked to set a new password for your account.

To set one, open this page within 30 minutes:
%s/app/password#token=%s

Programs post the token to /api/v1/user/password/reset:
%s

A new password ends all sessions and unlinks all wallets and accounts at OpenID providers.

If it was not you, do nothing. Your password stays as it is.
`, site, token, token)
	default:
		told, known := telling[l.Kind]
		if !known {
			return m, fmt.Errorf("there is no letter of the kind %.40q", l.Kind)
		}
		m.Subject, m.Text = told.subject, told.text
	}
	return m, nil
}

// telling are the letters that tell what happened, and have no token.
var telling = map[user.LetterKind]struct{ subject, text string }{
	user.ReuseLetter: {"A session of your account was ended",
		`A sign-in of your account was renewed twice with the same secret, which happens when
somebody has copied it. We have ended that session. Sign in again, and change your password
if you do not know how this could happen.
`},
	user.ChangedLetter: {"Your password was changed",
		`The password of your account was changed. All other sessions have ended.

If it was not you, ask for a letter that sets a new password, at once.
`},
	user.ResetDoneLetter: {"Your password was set",
		`A new password was set for your account by a letter to this address. All sessions have
ended. All wallets and accounts at OpenID providers were unlinked, and none of them signs in to
the account any more: link yours again.
API keys keep working. Revoke every key that you did not make.
`},
	user.LinkedLetter: {"A way to sign in was added to your account",
		`A wallet, or an account at an OpenID provider, was linked to your account. Whoever holds it
can sign in to the account. Your account page lists every way to sign in.

If it was not you, ask for a letter that sets a new password, at once. A new password ends all
sessions and unlinks all wallets and accounts at OpenID providers. API keys keep working. Revoke
every key that you did not make.
`},
	user.EndedLetter: {"A way to sign in was removed from your account",
		`A wallet, or an account at an OpenID provider, was unlinked from your account and signs in to
it no longer. All other sessions have ended.

If it was not you, ask for a letter that sets a new password, at once. A new password ends all
sessions and unlinks all wallets and accounts at OpenID providers.
`},
	user.AddressLetter: {"Your provider account has a new address",
		`Your provider account now pays its earnings to a new address, or a new wallet now owns it. The
settings of your provider account show both. Nothing is paid out to a new address for 48 hours.

If you did not make this change, contact the operators at once: only they can remove a wallet that is
not yours. Ask for a letter that sets a new password, too. A new password ends all sessions and
unlinks all wallets and accounts at OpenID providers. Then revoke every provider key that you did not
make, and set your own address again.
`},
}
