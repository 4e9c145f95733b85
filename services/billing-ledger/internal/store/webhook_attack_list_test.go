package store_test

import "testing"

// webhookAttacks are attacks on the endpoints of accounts, in the form of attacks.
const webhookAttacks = `
account_event account_event_data | data = '[]'
account_event account_event_kind_check | kind = 'odd'
account_event account_event_pkey | =
wallet wallet_low_bounds | ! UPDATE wallet SET low_at = 0
webhook webhook_account_id_fkey | id = gen_random_uuid(), account_id = gen_random_uuid()
webhook webhook_bound | ! INSERT INTO webhook (id, account_id, url, description, kinds, secret)
	SELECT gen_random_uuid(), account_id, url, '', kinds, secret FROM webhook, generate_series(1, 10)
webhook webhook_description_check | description = repeat('x', 201)
webhook webhook_dropped_check | ! UPDATE webhook SET dropped = -1
webhook webhook_earlier_check | ! UPDATE webhook SET earlier = '', earlier_until = now()
webhook webhook_earlier_overlap | ! UPDATE webhook SET earlier = 'x'
webhook webhook_failing | ! UPDATE webhook SET failures = 1
webhook webhook_failures_check | ! UPDATE webhook SET failures = -1
webhook webhook_kinds | kinds = '{webhook.test}'
webhook webhook_note_check | ! UPDATE webhook SET note = 'odd'
webhook webhook_overlap | ! UPDATE webhook SET previous = 'x'
webhook webhook_pkey | =
webhook webhook_previous_check | ! UPDATE webhook SET previous = '', previous_until = now()
webhook webhook_secret_check | secret = ''
webhook webhook_url | url = 'ftp://example.org/'
webhook_delivery webhook_delivery_attempt_check | ! UPDATE webhook_delivery SET attempt = 6, first_at = now(),
	tried_at = now()
webhook_delivery webhook_delivery_due | ! UPDATE webhook_delivery SET state = 'delivered'
webhook_delivery webhook_delivery_ends_once | ! UPDATE webhook_delivery SET state = 'delivered', due_at = NULL;
	UPDATE webhook_delivery SET state = 'waiting', due_at = now() => may not change any more
webhook_delivery webhook_delivery_event_id_fkey | event_id = gen_random_uuid()
webhook_delivery webhook_delivery_pkey | =
webhook_delivery webhook_delivery_problem_check | ! UPDATE webhook_delivery SET problem = 'what it answered'
webhook_delivery webhook_delivery_state_check | ! UPDATE webhook_delivery SET state = 'odd', due_at = NULL
webhook_delivery webhook_delivery_status_check | ! UPDATE webhook_delivery SET status = 1000
webhook_delivery webhook_delivery_tried | ! UPDATE webhook_delivery SET attempt = 1
webhook_delivery webhook_delivery_webhook_id_fkey | webhook_id = gen_random_uuid()
`

// besiegeWebhooks has a row in every table of webhooks.
func (e *env) besiegeWebhooks(t *testing.T, account [16]byte) {
	t.Helper()
	e.exec(t, `WITH w AS (INSERT INTO webhook (id, account_id, url, description, kinds, secret)
			VALUES (gen_random_uuid(), $1, 'https://example.org/', '', '{payout.confirmed}', 'sealed') RETURNING id),
		e AS (INSERT INTO account_event (account_id, kind, data) VALUES ($1, 'payout.confirmed', '{}') RETURNING id)
		INSERT INTO webhook_delivery (webhook_id, event_id) SELECT w.id, e.id FROM w, e`, account)
}
