package store_test

import "testing"

// userAttacks are attacks on what users sign in with.
const userAttacks = `
session_family session_family_bound | ! INSERT INTO session_family (id, user_id, network, remembered, expires_at)
	SELECT gen_random_uuid(), user_id, '', false, now() + interval '1 minute' FROM session_family, generate_series(1, 32)
	=> at most 32 session families
session_family session_family_cause_check | ! UPDATE session_family SET ended_at = now(), cause = 'whim'
session_family session_family_ends | ! UPDATE session_family SET ended_at = now()
session_family session_family_ends_once | ! UPDATE session_family SET ended_at = now(), cause = 'logout';
	UPDATE session_family SET cause = 'reset' => may not change any more
session_family session_family_is_used | id = gen_random_uuid(), expires_at = now() + interval '31 days'
session_family session_family_network_check | id = gen_random_uuid(), network = repeat('n', 65),
	expires_at = now() + interval '1 day'
session_family session_family_pkey | expires_at = now() + interval '1 day'
session_family session_family_user_id_fkey | id = gen_random_uuid(), user_id = gen_random_uuid(),
	expires_at = now() + interval '1 day'
user_session user_session_family_id_fkey | token_sha256 = sha256('x'), family_id = gen_random_uuid(),
	expires_at = now() + interval '1 minute'
refresh_token refresh_token_family_id_fkey | token_sha256 = sha256('x'), family_id = gen_random_uuid(),
	expires_at = now() + interval '1 day'
refresh_token refresh_token_has_a_successor | ! UPDATE refresh_token SET used_at = now()
refresh_token refresh_token_is_bounded | token_sha256 = sha256('x'), expires_at = now() + interval '31 days'
refresh_token refresh_token_is_used_once | ! UPDATE refresh_token SET used_at = now(), sealed = 's';
	UPDATE refresh_token SET sealed = 't' => may not change any more
refresh_token refresh_token_pkey | expires_at = now() + interval '1 day'
refresh_token refresh_token_sealed_check | ! UPDATE refresh_token SET used_at = now(),
	sealed = convert_to(repeat('s', 129), 'UTF8')
refresh_token refresh_token_token_sha256_check | token_sha256 = 'short', expires_at = now() + interval '1 day'
refresh_token refresh_token_unused | token_sha256 = sha256('x'), expires_at = now() + interval '1 day'
mail_outbox mail_outbox_bound | ! INSERT INTO mail_outbox (kind, recipient) SELECT kind, recipient
	FROM mail_outbox, generate_series(1, 2100) => at most 2100 letters
mail_outbox mail_outbox_kind_check | kind = 'spam'
mail_outbox mail_outbox_pkey | ! INSERT INTO mail_outbox OVERRIDING SYSTEM VALUE SELECT * FROM mail_outbox
mail_outbox mail_outbox_recipient_check | recipient = 'a@x' || chr(10) || 'Bcc: b@x'
mail_outbox mail_outbox_tries_check | ! UPDATE mail_outbox SET tries = 9
mail_outbox mail_outbox_user_id_fkey | user_id = gen_random_uuid()
letter_token letter_token_bound | ! INSERT INTO letter_token (token_sha256, user_id, kind, email, expires_at)
	SELECT sha256(n::text::bytea), user_id, kind, email, expires_at FROM letter_token, generate_series(1, 8) AS n
	=> at most 8 tokens
letter_token letter_token_email_check | token_sha256 = sha256('x'), email = repeat('e', 255),
	expires_at = now() + interval '1 minute'
letter_token letter_token_is_short | token_sha256 = sha256('x'), expires_at = now() + interval '31 minutes'
letter_token letter_token_kind_check | token_sha256 = sha256('x'), kind = 'spam',
	expires_at = now() + interval '1 minute'
letter_token letter_token_pkey | expires_at = now() + interval '1 minute'
letter_token letter_token_stands | ! UPDATE letter_token SET expires_at = expires_at => may not change any more
letter_token letter_token_token_sha256_check | token_sha256 = 'short', expires_at = now() + interval '1 minute'
app_user app_user_has_a_way_in | ! INSERT INTO app_user (id, display_name, account_id)
	SELECT gen_random_uuid(), '', id FROM account WHERE name = 'other' => user_has_a_way_in
user_identity user_identity_bound | ! INSERT INTO user_identity (id, user_id, issuer, subject, evidence)
	SELECT gen_random_uuid(), user_id, 'wallet', '0x' || lpad(n::text, 40, '0'), sha256('w') FROM user_identity,
	generate_series(1, 8) AS n => at most 8 identities
user_identity user_identity_evidence_check | id = gen_random_uuid(), subject = '0x' || repeat('b', 40),
	evidence = 'short'
user_identity user_identity_is_of_one_user | id = gen_random_uuid()
user_identity user_identity_issuer_check | id = gen_random_uuid(), issuer = 'http://x', evidence = NULL
user_identity user_identity_leaves_a_way_in | ! UPDATE app_user SET password_hash = NULL WHERE email = 'a@x';
	SET CONSTRAINTS ALL IMMEDIATE; SET CONSTRAINTS ALL DEFERRED; DELETE FROM user_identity => user_has_a_way_in
user_identity user_identity_marks | ! INSERT INTO account_mark (account_id, evidence, cause)
	SELECT u.account_id, sha256(n::text::bytea), 'wallet' FROM app_user u, generate_series(1, 64) AS n
	WHERE email = 'a@x'; INSERT INTO user_identity (id, user_id, issuer, subject, evidence)
	SELECT gen_random_uuid(), user_id, issuer, '0x' || repeat('b', 40), sha256('b') FROM user_identity
user_identity user_identity_of_a_wallet_is_evidence | id = gen_random_uuid(), subject = '0x' || repeat('b', 40),
	evidence = NULL
user_identity user_identity_pkey | subject = '0x' || repeat('b', 40)
user_identity user_identity_stands | ! UPDATE user_identity SET subject = '0x' || repeat('b', 40)
	=> may not change any more
user_identity user_identity_subject_check | id = gen_random_uuid(), issuer = 'https://x', subject = '', evidence = NULL
user_identity user_identity_user_id_fkey | id = gen_random_uuid(), user_id = gen_random_uuid(),
	subject = '0x' || repeat('b', 40)
user_identity user_identity_wallet | id = gen_random_uuid(), subject = '0x' || repeat('B', 40)
used_proof used_proof_bound | ! INSERT INTO used_proof (nonce, user_id, expires_at)
	SELECT sha256(n::text::bytea), user_id, expires_at FROM used_proof, generate_series(1, 32) AS n
	=> at most 32 proofs
used_proof used_proof_is_short | nonce = sha256('x'), expires_at = now() + interval '16 minutes'
used_proof used_proof_nonce_check | nonce = 'short'
used_proof used_proof_pkey | =
used_proof used_proof_stands | ! UPDATE used_proof SET expires_at = expires_at => may not change any more
used_proof used_proof_user_id_fkey | nonce = sha256('x'), user_id = gen_random_uuid()
letter_token letter_token_user_id_fkey | token_sha256 = sha256('x'), user_id = gen_random_uuid(),
	expires_at = now() + interval '1 minute'
`

// besiegeUsers has a row in every table of sessions and letters.
func (e *env) besiegeUsers(t *testing.T) {
	t.Helper()
	const ada = `FROM app_user WHERE email = 'a@x'`
	e.exec(t, `INSERT INTO session_family (id, user_id, network, remembered, expires_at)
		SELECT gen_random_uuid(), id, '', true, now() + interval '1 day' `+ada)
	e.exec(t, `INSERT INTO refresh_token (token_sha256, family_id, expires_at)
		SELECT sha256('r'), id, now() + interval '1 day' FROM session_family`)
	e.exec(t, `INSERT INTO mail_outbox (kind, recipient, user_id) SELECT 'confirm', 'a@x', id `+ada)
	e.exec(t, `INSERT INTO letter_token (token_sha256, user_id, kind, email, expires_at)
		SELECT sha256('l'), id, 'reset', 'a@x', now() + interval '1 minute' `+ada)
	e.besiegeOperators(t)
	e.exec(t, `INSERT INTO user_identity (id, user_id, issuer, subject, evidence)
		SELECT gen_random_uuid(), id, 'wallet', '0x' || repeat('a', 40), sha256('a') `+ada)
	e.exec(t, `INSERT INTO used_proof (nonce, user_id, expires_at)
		SELECT sha256('p'), id, now() + interval '1 minute' `+ada)
}
