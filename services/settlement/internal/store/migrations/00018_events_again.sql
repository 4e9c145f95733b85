-- Positions are what the events say that their chain has, in the chain's order: also of events that are gone after a
-- deep reorg, are mined again, or are found by the second reading alone.

-- +goose Up
ALTER TABLE chain_event ADD COLUMN gone_at timestamptz CHECK (gone_at > '2020-01-01');
DROP TRIGGER chain_event_keep ON chain_event;
UPDATE chain_event e SET gone_at = g.found_at FROM chain_event_gone g
    WHERE (g.chain_id, g.tx_hash, g.place) = (e.chain_id, e.tx_hash, e.place);
DROP TABLE chain_event_gone;
ALTER TABLE chain_event DROP CONSTRAINT chain_event_chain_id_tx_hash_place_key;
CREATE UNIQUE INDEX chain_event_once ON chain_event (chain_id, tx_hash, place) WHERE gone_at IS NULL;
CREATE INDEX chain_event_gone ON chain_event (chain_id, seq) WHERE gone_at IS NOT NULL;
CREATE TRIGGER chain_event_moves BEFORE UPDATE ON chain_event FOR EACH ROW EXECUTE FUNCTION chain_event_moves();
CREATE TRIGGER chain_event_keep BEFORE DELETE ON chain_event FOR EACH ROW EXECUTE FUNCTION rows_are_kept();
GRANT UPDATE (gone_at) ON chain_event TO svc_settlement;
COMMENT ON COLUMN chain_event.gone_at IS 'When an operator accepted a history without the event''s block. The same log may be there again, as another row.';
COMMENT ON TABLE chain_event IS 'Final logs of the collateral contract of each chain. Their order is (chain, block, log_index); seq is the order in which they were found. Only ever added; a row changes once, when its block is gone.';

ALTER TABLE chain_halt ADD COLUMN read_to bigint CHECK (read_to >= block);
ALTER TABLE chain_halt ADD CONSTRAINT chain_halt_read_again CHECK (read_to IS NULL OR lifted_at IS NOT NULL);
GRANT UPDATE (read_to) ON chain_halt TO svc_settlement;
COMMENT ON COLUMN chain_halt.read_to IS 'Positions do not follow the chain before it is read again up to this block: so what is mined again is not missed.';

-- From here on number is the order in which events counted, and event the watcher's number.
ALTER TABLE position_event ADD COLUMN event bigint CHECK (event > 0);
ALTER TABLE position_event ADD COLUMN cause text COLLATE "C" CHECK (cause IN ('gone', 'again', 'late'));
ALTER TABLE position_event ADD COLUMN gone boolean NOT NULL DEFAULT false;
ALTER TABLE position_event DISABLE TRIGGER position_event_moves;
UPDATE position_event SET event = number;
ALTER TABLE position_event ENABLE TRIGGER position_event_moves;
ALTER TABLE position_event DROP CONSTRAINT position_event_kind_check;
ALTER TABLE position_event ADD CONSTRAINT position_event_kind_check CHECK (kind IN ('deposited', 'refund_requested',
    'refund_cancelled', 'exit_requested', 'exit_cancelled', 'refunded', 'slash_proposed', 'slash_appealed',
    'slash_executed', 'slash_reversed', 'slash_lapsed', 'restated'));
ALTER TABLE position_event ADD CONSTRAINT position_event_restates CHECK (CASE WHEN kind = 'restated'
    THEN event IS NULL AND cause IS NOT NULL AND part_id IS NULL AND amount = 0 AND NOT gone
    ELSE event IS NOT NULL AND cause IS NULL END);
ALTER TABLE position_event DROP CONSTRAINT position_event_once;
CREATE UNIQUE INDEX position_event_once ON position_event (chain_id, event);
-- The books know a movement by its transaction and place.
CREATE UNIQUE INDEX position_event_moved_once ON position_event (chain_id, tx, place) WHERE units <> 0;
CREATE INDEX position_event_of_log ON position_event (chain_id, tx, place);
CREATE INDEX position_event_of ON position_event (chain_id, subject, depositor);
CREATE INDEX position_event_gone ON position_event (part_id) WHERE gone AND part_id IS NOT NULL;
CREATE TRIGGER position_event_begins BEFORE INSERT ON position_event
    FOR EACH ROW EXECUTE FUNCTION position_event_begins();
GRANT INSERT (event, cause), UPDATE (gone) ON position_event TO svc_settlement;
COMMENT ON COLUMN position_event.cause IS 'Why the position was made anew of the events that the chain has, in a row that restates it: one was gone, one was mined again, or one was found late.';
COMMENT ON COLUMN position_event.gone IS 'The event counts no longer. A later row that restates the position has taken back what it did.';
COMMENT ON TABLE position_event IS 'What counted of positions, in its order: final events of the collateral contracts, those of subjects that are no providers too, and rows that restate a position. Only ever added; a row changes when the books have it, and when its event is gone.';

-- The place on the chain of the last event that counts.
ALTER TABLE position ADD COLUMN block bigint NOT NULL DEFAULT 0 CHECK (block >= 0);
ALTER TABLE position ADD COLUMN log_index bigint NOT NULL DEFAULT 0 CHECK (log_index >= 0);
ALTER TABLE position DISABLE TRIGGER position_moves;
UPDATE position p SET block = e.block, log_index = e.log_index FROM (
    SELECT DISTINCT ON (v.chain_id, v.subject, v.depositor) v.chain_id, v.subject, v.depositor, c.block, c.log_index
    FROM position_event v JOIN chain_event c ON c.chain_id = v.chain_id AND c.seq = v.event
    ORDER BY v.chain_id, v.subject, v.depositor, c.block DESC, c.log_index DESC) e
    WHERE (e.chain_id, e.subject, e.depositor) = (p.chain_id, p.subject, p.depositor);
ALTER TABLE position ENABLE TRIGGER position_moves;
GRANT UPDATE (block, log_index) ON position TO svc_settlement;
COMMENT ON COLUMN position_cursor.number IS 'Each event of the watcher up to this number counts, or concerns no position, or is gone.';
