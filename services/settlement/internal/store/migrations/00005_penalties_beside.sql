-- Several penalties of a provider stand at once within bounds, and a fact about collateral
-- says its source. Triggers of penalties have their own search path.

-- +goose Up
CREATE UNIQUE INDEX penalty_one_open ON penalty (provider_id, model_id, kind)
    WHERE state IN ('proposed', 'appealed', 'upheld');
CREATE TRIGGER penalty_fits AFTER INSERT ON penalty FOR EACH ROW EXECUTE FUNCTION penalty_fits();

-- Until now there was no other source.
ALTER TABLE provider_collateral ADD COLUMN source text COLLATE "C" NOT NULL DEFAULT 'development'
    CHECK (source IN ('development', 'contract'));
COMMENT ON COLUMN provider_collateral.source IS 'What stands behind the fact: development, where nobody holds anything, or a contract.';
CREATE INDEX provider_collateral_development ON provider_collateral (provider_id)
    WHERE source = 'development' AND confirmed;

GRANT INSERT (source), UPDATE (source) ON provider_collateral TO svc_settlement;
