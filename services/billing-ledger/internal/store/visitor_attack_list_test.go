package store_test

// visitorAttacks are attacks on the tables of visitors without a key, as those of attacks.
const visitorAttacks = `
visitor_session visitor_session_comes | ! UPDATE visitor_session_count SET live = 100000; INSERT INTO visitor_session
	SELECT sha256('x'), network, 2, opened_at, expires_at FROM visitor_session => visitor_session_count_bounds
visitor_session visitor_session_goes | ! UPDATE visitor_session_count SET live = 0; DELETE FROM visitor_session
	=> visitor_session_count_bounds
visitor_session visitor_session_life | expires_at = expires_at + interval '1 hour'
visitor_session visitor_session_network_check | network = 'short'
visitor_session visitor_session_pkey | =
visitor_session visitor_session_place | secret_sha256 = sha256('x')
visitor_session visitor_session_place_check | place = 17
visitor_session visitor_session_secret_sha256_check | secret_sha256 = 'short'
visitor_session_count visitor_session_count_bounds | live = 100001
visitor_session_count visitor_session_count_one_check | one = false
visitor_session_count visitor_session_count_pkey | =
playground_account playground_account_account_id_fkey | ! UPDATE playground_account SET account_id = gen_random_uuid()
playground_account playground_account_is_one | account_id = (SELECT id FROM account WHERE name = 'other')
playground_account playground_account_pkey | =
playground_day playground_day_budget | budget = 0
playground_day playground_day_pkey | =
visitor visitor_address_check | address = 'short'
visitor visitor_pkey | =
visitor visitor_taken_at_check | address = sha256('x'), taken_at = array_fill(now(), ARRAY[1001])
`
