package store_test

import "testing"

// sliceAttacks are like attacks. The slice that is there is open, and its owner is dead.
const sliceAttacks = `
slice slice_account_id_fkey | account_id = gen_random_uuid()
slice slice_address_check | address = repeat('x', 256)
slice slice_amount_check | amount = -1
slice slice_is_reclaimed | ! UPDATE slice SET state = 'stranded'
slice slice_open | =
slice slice_pkey | ! INSERT INTO slice SELECT * FROM slice
slice slice_places_check | places = 257
slice slice_reclaim_after_check | reclaim_after = interval '0'
slice slice_state_check | ! UPDATE slice SET state = 'gone'
slice slice_strands_once | ! UPDATE slice SET state = 'stranded', reclaim_at = now();
	UPDATE slice SET amount = amount + 1 => may not change any more
account account_meets_no_slice | ! UPDATE slice SET alive_until = now() + interval '1 hour';
	UPDATE account SET state = 'frozen' WHERE id = (SELECT account_id FROM slice) AND state = 'open'
	=> are admitted from a slice
account_limits account_limits_meet_no_slice | ! UPDATE slice SET alive_until = now() + interval '1 hour';
	UPDATE account_limits SET requests_per_minute = 1 WHERE account_id = (SELECT account_id FROM slice)
	=> are admitted from a slice
account_plan account_plan_meets_no_slice | ! UPDATE slice SET alive_until = now() + interval '1 hour';
	UPDATE account_plan SET until_at = now() WHERE account_id = (SELECT account_id FROM slice)
	=> are admitted from a slice
consumer_key consumer_key_meets_no_slice | ! UPDATE slice SET alive_until = now() + interval '1 hour';
	INSERT INTO consumer_key (id, account_id, name, hash, prefix)
	SELECT gen_random_uuid(), account_id, '', sha256('x'), '' FROM slice => are admitted from a slice
consumer_key consumer_key_changes_without_slice | ! UPDATE slice SET alive_until = now() + interval '1 hour';
	UPDATE consumer_key SET expires_at = now() WHERE account_id = (SELECT account_id FROM slice)
	=> are admitted from a slice
wallet wallet_meets_no_slice | ! UPDATE slice SET alive_until = now() + interval '1 hour';
	UPDATE wallet SET posted = held - 1 WHERE account_id = (SELECT account_id FROM slice)
	=> are admitted from a slice
`

func (e *env) besiegeSlices(t *testing.T, account [16]byte) {
	t.Helper()
	e.exec(t, `INSERT INTO slice (account_id, owner, address, amount, places, alive_until, reclaim_after)
		VALUES ($1, gen_random_uuid(), 'a:1', 5, 5, now() - interval '1 hour', interval '1 hour')`, account)
}
