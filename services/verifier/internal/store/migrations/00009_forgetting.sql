-- Events and probes are forgotten when their time is over. Of an event the piece of evidence
-- stays, with leaf and link, so that chains and roots of days stay whole.

-- +goose Up
-- A piece outlives its event, so a trigger looks for the event once.
ALTER TABLE evidence DROP CONSTRAINT evidence_provider_id_model_id_number_fkey;
CREATE TRIGGER evidence_of_event AFTER INSERT ON evidence FOR EACH ROW EXECUTE FUNCTION evidence_of_event();

DROP TRIGGER event_keep ON event;
CREATE TRIGGER event_keep BEFORE UPDATE ON event FOR EACH ROW EXECUTE FUNCTION rows_keep();
CREATE TRIGGER event_ends BEFORE DELETE ON event FOR EACH ROW EXECUTE FUNCTION event_ends();
DROP TRIGGER observation_keep ON observation;
CREATE TRIGGER observation_keep BEFORE UPDATE ON observation FOR EACH ROW EXECUTE FUNCTION rows_keep();
CREATE TRIGGER observation_ends BEFORE DELETE ON observation FOR EACH ROW EXECUTE FUNCTION observation_ends();
DROP TRIGGER probe_keep ON probe;
CREATE TRIGGER probe_keep BEFORE DELETE ON probe FOR EACH ROW EXECUTE FUNCTION probe_ends();

COMMENT ON TABLE event IS 'What moved an offer''s standing, in order. Never changed, and forgotten when its evidence is cleared.';
COMMENT ON TABLE observation IS 'What probes said for each family: at most one observation of a family by a probe. Never changed, and forgotten with its event.';
CREATE INDEX probe_over ON probe (ended_at) WHERE ended_at IS NOT NULL;

GRANT DELETE ON event, observation, probe TO svc_verifier;
