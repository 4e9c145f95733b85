-- What has become of a proposal by now, by the clock of the database. A key that ends
-- after the proposal took effect takes nothing back.
CREATE OR REPLACE VIEW provider_proposal_now AS
	SELECT d.proposal_id, d.provider_id, d.kind, d.address, d.signer, d.key_id, d.proposed_at, t.takes_effect_at,
		coalesce(e.ended_at <= statement_timestamp() AND (t.takes_effect_at IS NULL OR e.ended_at < t.takes_effect_at), false) AS key_ended,
		coalesce(t.takes_effect_at <= statement_timestamp() AND (e.ended_at IS NULL OR e.ended_at >= t.takes_effect_at), false) AS due
	FROM provider_proposal d
	JOIN provider p USING (provider_id)
	JOIN provider_key k ON k.key_id = d.key_id
	CROSS JOIN LATERAL (SELECT CASE WHEN p.user_id IS NULL THEN d.proposed_at + interval '48 hours' END AS takes_effect_at) t
	CROSS JOIN LATERAL (SELECT least(k.revoked_at, k.expires_at) AS ended_at) e;

GRANT SELECT ON provider_proposal_now TO svc_hub;
