package store_test

import "testing"

// contactAttacks are attacks on the messages of accounts, in the form of attacks.
const contactAttacks = `
enterprise_contact enterprise_contact_account_id_fkey | id = gen_random_uuid(), account_id = gen_random_uuid()
enterprise_contact enterprise_contact_answered | ! UPDATE enterprise_contact SET answered_at = now()
enterprise_contact enterprise_contact_answered_by_check | ! UPDATE enterprise_contact SET answered_at = now(),
	answered_by = 'odd'
enterprise_contact enterprise_contact_answered_once | ! UPDATE enterprise_contact SET answered_at = now(),
	answered_by = 'operator'; UPDATE enterprise_contact SET answered_at = NULL,
	answered_by = NULL => may not change any more
enterprise_contact enterprise_contact_company_check | company = repeat('x', 201)
enterprise_contact enterprise_contact_idempotency_key_check | idempotency_key = ''
enterprise_contact enterprise_contact_message_check | message = repeat('x', 4001)
enterprise_contact enterprise_contact_once | id = gen_random_uuid()
enterprise_contact enterprise_contact_pkey | idempotency_key = 'other'
`

// besiegeContacts has a row in the table of messages.
func (e *env) besiegeContacts(t *testing.T, account [16]byte) {
	t.Helper()
	e.exec(t, `INSERT INTO enterprise_contact (id, account_id, idempotency_key, company, message)
		VALUES (gen_random_uuid(), $1, 'k', '', 'm')`, account)
}
