-- Changes of models that operators write ahead. The catalog applies a change at its moment, in the
-- transaction that changes the model.

-- +goose Up
CREATE TABLE model_change (
    change_id uuid PRIMARY KEY,
    model_id text COLLATE "C" NOT NULL REFERENCES model,
    state text COLLATE "C" NOT NULL CHECK (state IN ('scheduled', 'applied', 'cancelled', 'refused')),
    effective_from timestamptz NOT NULL,
    draft jsonb NOT NULL CHECK (jsonb_typeof(draft) = 'object' AND octet_length(draft::text) <= 16384),
    pricing_unit text COLLATE "C" NOT NULL CHECK (pricing_unit IN ('per_1m_tokens', 'per_image', 'per_minute')),
    input_pico_usd bigint NOT NULL CHECK (input_pico_usd >= 0),
    output_pico_usd bigint NOT NULL CHECK (output_pico_usd >= 0),
    payout_input_pico_usd bigint NOT NULL CHECK (payout_input_pico_usd BETWEEN 0 AND input_pico_usd),
    payout_output_pico_usd bigint NOT NULL CHECK (payout_output_pico_usd BETWEEN 0 AND output_pico_usd),
    payout_cached_input_pico_usd bigint NOT NULL CHECK (payout_cached_input_pico_usd >= 0),
    base jsonb NOT NULL CHECK (jsonb_typeof(base) = 'object' AND octet_length(base::text) <= 16384),
    base_price_version_id uuid NOT NULL REFERENCES price_version,
    scheduled_by text COLLATE "C" NOT NULL CHECK (scheduled_by ~ '^operator(:[a-z0-9._@-]{1,64})?$'),
    scheduled_at timestamptz NOT NULL,
    ended_by text COLLATE "C" NOT NULL DEFAULT '' CHECK (ended_by ~ '^(operator(:[a-z0-9._@-]{1,64})?)?$'),
    ended_at timestamptz,
    reason text NOT NULL DEFAULT '' CHECK (octet_length(reason) <= 512),
    price_version_id uuid REFERENCES price_version,
    CONSTRAINT model_change_moment CHECK (effective_from BETWEEN scheduled_at + interval '1 minute'
        AND scheduled_at + interval '2160 hours'),
    CONSTRAINT model_change_ends CHECK ((state = 'scheduled') = (ended_at IS NULL)),
    CONSTRAINT model_change_in_force CHECK ((state = 'applied') = (price_version_id IS NOT NULL)
        AND (state <> 'applied' OR ended_at >= effective_from)),
    CONSTRAINT model_change_reason CHECK ((state = 'refused') = (reason <> ''))
);
COMMENT ON TABLE model_change IS 'What operators scheduled for models. Only ever added; a change ends once.';
COMMENT ON COLUMN model_change.draft IS 'What the model is to be, beside its prices.';
COMMENT ON COLUMN model_change.base IS 'What the model was when the change was written, beside its prices.';
COMMENT ON COLUMN model_change.ended_by IS 'Empty while the change waits, and where the catalog ended it.';
CREATE UNIQUE INDEX model_change_waiting ON model_change (model_id) WHERE state = 'scheduled';
CREATE INDEX model_change_due ON model_change (effective_from, change_id) WHERE state = 'scheduled';
CREATE INDEX model_change_of_model ON model_change (model_id, change_id);

CREATE TRIGGER model_change_keep BEFORE UPDATE OR DELETE ON model_change
    FOR EACH ROW EXECUTE FUNCTION model_change_keep();
CREATE TRIGGER model_change_keep_all BEFORE TRUNCATE ON model_change
    FOR EACH STATEMENT EXECUTE FUNCTION model_change_keep();
CREATE TRIGGER model_change_bound AFTER INSERT ON model_change
    FOR EACH STATEMENT EXECUTE FUNCTION model_change_bound();
-- The public catalog shows the prices that are scheduled.
CREATE TRIGGER model_change_changed AFTER INSERT OR UPDATE ON model_change
    FOR EACH STATEMENT EXECUTE FUNCTION catalog_changed();

GRANT SELECT, INSERT ON model_change TO svc_catalog;
GRANT UPDATE (state, ended_by, ended_at, reason, price_version_id) ON model_change TO svc_catalog;

-- Old entries fit a longer list of words, so none is looked at.
ALTER TABLE operator_action DROP CONSTRAINT operator_action_action_check;
ALTER TABLE operator_action ADD CONSTRAINT operator_action_action_check CHECK (action IN ('put_model',
    'put_model_files', 'schedule_model_change', 'cancel_model_change', 'apply_model_change', 'refuse_model_change'))
    NOT VALID;
