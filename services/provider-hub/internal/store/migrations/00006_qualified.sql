-- +goose Up
-- Collateral and benchmark are confirmed by who knows of them, and no longer by the status.
-- provider_transition_allowed has a new text too. The version before has written both facts
-- of every provider that it made active.
UPDATE provider SET collateral_at = coalesce(collateral_at, active_since, now()),
	benchmark_at = coalesce(benchmark_at, active_since, now())
WHERE status = 'active' AND (collateral_at IS NULL OR benchmark_at IS NULL);
-- Waivers that came with an activation are waivers like all others.
UPDATE provider SET gpu_waived_once = false WHERE gpu_waived_once;
CREATE CONSTRAINT TRIGGER provider_active_is_qualified
	AFTER INSERT OR UPDATE OF status, collateral_at, benchmark_at ON provider
	DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.status = 'active')
	EXECUTE FUNCTION provider_active_is_qualified();
