-- An entry ahead of its penalty would take the place of the real one.

-- +goose Up
CREATE CONSTRAINT TRIGGER penalty_change_follows AFTER INSERT ON penalty_change
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION penalty_change_follows();
