package store_test

import "testing"

// operatorAttacks are attacks on operators and peppers, in the form of attacks. Of them ivy is invited, ada
// the only admin who is active, and eve has ended.
const operatorAttacks = `
operator operator_active_since | ! UPDATE operator SET active_since = NULL WHERE name = 'ada'
operator operator_active_since_stays | ! UPDATE operator SET active_since = active_since - interval '1 day'
	WHERE name = 'ada' => may not change any more
operator operator_active_since_stays | ! UPDATE operator SET state = 'active', password_hash = '$argon2id$v=19$m=1',
	totp_sealed = sha256('x'), ticket_sha256 = NULL, ticket_at = NULL, ticket_until = NULL,
	active_since = now() - interval '1 day' WHERE name = 'ivy' => may not change any more
operator operator_begins_invited | ! INSERT INTO operator (id, name, role, state)
	VALUES (gen_random_uuid(), 'x', 'admin', 'active') => may not change any more
operator operator_bound | ! INSERT INTO operator (id, name, role, ticket_sha256, ticket_at, ticket_until)
	SELECT gen_random_uuid(), 'x' || n, 'viewer', sha256(n::text::bytea), now(), now() + interval '1 hour'
	FROM generate_series(1, 500) AS n
operator operator_code_counts_once | ! UPDATE operator SET totp_step = 0 WHERE name = 'ada' => may not change any more
operator operator_code_counts_once | ! UPDATE operator SET state = 'active', password_hash = '$argon2id$v=19$m=1',
	totp_sealed = sha256('x'), ticket_sha256 = NULL, ticket_at = NULL, ticket_until = NULL WHERE name = 'ivy'
	=> may not change any more
operator operator_totp_pepper_fkey | ! UPDATE operator SET totp_pepper = 999 WHERE name = 'ada'
operator operator_ends_once | ! UPDATE operator SET role = 'admin' WHERE name = 'eve' => may not change any more
operator operator_keeps_an_admin | ! UPDATE operator SET role = 'viewer' WHERE name = 'ada'
operator operator_keeps_an_admin | ! UPDATE operator SET state = 'ended', password_hash = NULL, totp_sealed = NULL
	WHERE name = 'ada'
operator operator_name_check | id = gen_random_uuid(), name = 'Ada', ticket_sha256 = sha256('x')
operator operator_name_key | id = gen_random_uuid(), ticket_sha256 = sha256('x')
operator operator_password_hash_check | ! UPDATE operator SET password_hash = 'plain', totp_sealed = sha256('x')
	WHERE name = 'ivy'
operator operator_pkey | name = 'x', ticket_sha256 = sha256('x')
operator operator_role_check | id = gen_random_uuid(), name = 'x', role = 'king', ticket_sha256 = sha256('x')
operator operator_secrets | ! UPDATE operator SET password_hash = '$argon2id$v=19$m=1' WHERE name = 'ivy'
operator operator_state_check | ! UPDATE operator SET state = 'odd' WHERE name = 'ivy'
operator operator_ticket | ! UPDATE operator SET ticket_until = NULL WHERE name = 'ivy'
operator operator_ticket_is_short | id = gen_random_uuid(), name = 'x', ticket_sha256 = sha256('x'),
	ticket_until = ticket_at + interval '25 hours'
operator operator_ticket_sha256_check | id = gen_random_uuid(), name = 'x', ticket_sha256 = 'short'
operator operator_ticket_sha256_key | id = gen_random_uuid(), name = 'x'
operator operator_totp_sealed_check | ! UPDATE operator SET totp_sealed = 'short', password_hash = '$argon2id$v=19$m=1'
	WHERE name = 'ivy'
operator operator_totp_step_check | ! UPDATE operator SET totp_step = -1 WHERE name = 'ivy'
operator_session operator_session_bound | ! INSERT INTO operator_session (id, operator_id, token_sha256, network,
	expires_at) SELECT gen_random_uuid(), operator_id, sha256(n::text::bytea), network, expires_at
	FROM operator_session, generate_series(1, 32) AS n => at most 32 sessions
operator_session operator_session_ends_once | ! UPDATE operator_session SET ended_at = now();
	UPDATE operator_session SET ended_at = NULL => may not change any more
operator_session operator_session_is_short | id = gen_random_uuid(), token_sha256 = sha256('x'),
	expires_at = now() + interval '13 hours'
operator_session operator_session_is_used | ! INSERT INTO operator_session (id, operator_id, token_sha256, network,
	used_at, expires_at) SELECT gen_random_uuid(), operator_id, sha256('x'), network, now() - interval '1 minute',
	expires_at FROM operator_session
operator_session operator_session_network_check | id = gen_random_uuid(), token_sha256 = sha256('x'), network = 'short'
operator_session operator_session_operator_id_fkey | id = gen_random_uuid(), token_sha256 = sha256('x'),
	operator_id = gen_random_uuid()
operator_session operator_session_pkey | token_sha256 = sha256('x')
operator_session operator_session_token_sha256_check | id = gen_random_uuid(), token_sha256 = 'short'
operator_session operator_session_token_sha256_key | id = gen_random_uuid()
pepper pepper_fingerprint_check | number = 2, fingerprint = 'short'
pepper pepper_fingerprint_key | ! INSERT INTO pepper (number, fingerprint) VALUES (2, '12345678'), (3, '12345678')
pepper pepper_is_named | number = 2
pepper pepper_number_check | number = 1001, fingerprint = '12345678'
pepper pepper_pkey | fingerprint = '12345678'
pepper pepper_stays | ! UPDATE pepper SET fingerprint = '12345678'; UPDATE pepper SET fingerprint = '87654321'
	=> may not change any more
`

// besiegeOperators has a row in every table of operators.
func (e *env) besiegeOperators(t *testing.T) {
	t.Helper()
	e.exec(t, `INSERT INTO operator (id, name, role, ticket_sha256, ticket_at, ticket_until)
		VALUES (gen_random_uuid(), 'ivy', 'viewer', sha256('i'), now(), now() + interval '1 hour')`)
	e.exec(t, `INSERT INTO operator (id, name, role, state, password_hash, totp_sealed, totp_step, active_since)
		VALUES (gen_random_uuid(), 'ada', 'admin', 'active', '$argon2id$v=19$m=1', sha256('t'), 7, now())`)
	e.exec(t, `INSERT INTO operator (id, name, role, state) VALUES (gen_random_uuid(), 'eve', 'admin', 'ended')`)
	e.exec(t, `INSERT INTO operator_session (id, operator_id, token_sha256, network, expires_at)
		SELECT gen_random_uuid(), id, sha256('o'), sha256('n'), now() + interval '1 hour' FROM operator WHERE name = 'ada'`)
}
