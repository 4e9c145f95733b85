-- What operators agree with an account: rates, places and tokens of a day over all of its keys,
-- by category and in all, a discount, and priority while providers are busy. Whoever changes
-- them has locked the wallet of the account.

-- +goose Up
-- Arrays are by class (see limit.Class), and 4, the class of zero-priced models, has none. 0 is
-- the default, which bounds each key alone, and -1 of a rate is without bound.
ALTER TABLE account_limits
    ADD COLUMN account_per_minute integer NOT NULL DEFAULT 0 CHECK (account_per_minute BETWEEN 0 AND 1000000),
    ADD COLUMN class_per_minute   integer[],
    ADD COLUMN class_concurrent   integer[],
    ADD COLUMN class_tokens       bigint[],
    -- Of the list price, in hundredths of a percent.
    ADD COLUMN discount           smallint NOT NULL DEFAULT 0 CHECK (discount BETWEEN 0 AND 9000),
    ADD COLUMN priority           boolean NOT NULL DEFAULT false,
    ADD COLUMN terms_note         text CHECK (char_length(terms_note) BETWEEN 1 AND 200),
    ADD CONSTRAINT account_limits_class_per_minute CHECK (cardinality(class_per_minute) = 6 AND class_per_minute[4] = 0
        AND array_position(class_per_minute, NULL) IS NULL
        AND -1 <= ALL (class_per_minute) AND 1000000 >= ALL (class_per_minute)),
    ADD CONSTRAINT account_limits_class_concurrent CHECK (cardinality(class_concurrent) = 6 AND class_concurrent[4] = 0
        AND array_position(class_concurrent, NULL) IS NULL
        AND 0 <= ALL (class_concurrent) AND 1000000 >= ALL (class_concurrent)),
    -- Images and audio have no tokens.
    ADD CONSTRAINT account_limits_class_tokens CHECK (cardinality(class_tokens) = 6 AND class_tokens[4] = 0
        AND class_tokens[5] = 0 AND class_tokens[6] = 0 AND array_position(class_tokens, NULL) IS NULL
        AND 0 <= ALL (class_tokens) AND 1000000000000000000 >= ALL (class_tokens)),
    ADD CONSTRAINT account_limits_terms_have_a_note CHECK (terms_note IS NOT NULL OR account_per_minute = 0
        AND class_per_minute IS NULL AND class_concurrent IS NULL AND class_tokens IS NULL AND discount = 0
        AND NOT priority);
GRANT UPDATE (account_per_minute, class_per_minute, class_concurrent, class_tokens, discount, priority, terms_note)
    ON account_limits TO svc_billing;

-- 14 is the rate of the whole account, and the others above 10 are those of its classes.
ALTER TABLE account_rate DROP CONSTRAINT account_rate_class_check;
ALTER TABLE account_rate ADD CONSTRAINT account_rate_class_check CHECK (class IN (4, 7, 11, 12, 13, 14, 15, 16));

-- Admission pins the discount, and the class whose places and tokens count the request: the day
-- of its tokens is that of admitted_at.
ALTER TABLE hold
    ADD COLUMN discount      smallint NOT NULL DEFAULT 0 CHECK (discount BETWEEN 0 AND 9000),
    ADD COLUMN counted_class smallint CHECK (counted_class IN (1, 2, 3, 5, 6));
-- For the checks of counters against what they count.
CREATE INDEX hold_counted_class ON hold (account_id, counted_class) WHERE counted_class IS NOT NULL;

CREATE TABLE category_gate (
    account_id uuid NOT NULL REFERENCES account,
    class      smallint NOT NULL CHECK (class IN (1, 2, 3, 5, 6)),
    open       integer NOT NULL,
    PRIMARY KEY (account_id, class),
    CONSTRAINT category_gate_bounds CHECK (open BETWEEN 0 AND 10000000)
) WITH (fillfactor = 70);
COMMENT ON TABLE category_gate IS 'Requests under way of accounts whose terms bound a category, all keys together.';

CREATE TABLE category_tokens (
    account_id uuid NOT NULL REFERENCES account,
    class      smallint NOT NULL CHECK (class IN (1, 2, 3, 5, 6)),
    day        date NOT NULL,
    used       bigint NOT NULL,
    -- What bounded the last admission, null for nothing, and by how much a settled request passed it since.
    cap        bigint CHECK (cap > 0),
    excess     bigint NOT NULL DEFAULT 0 CHECK (excess >= 0),
    PRIMARY KEY (account_id, class, day),
    CONSTRAINT category_tokens_bounds CHECK (used >= 0),
    CONSTRAINT category_tokens_cap CHECK (used - excess <= cap)
) WITH (fillfactor = 70);
COMMENT ON TABLE category_tokens IS 'Tokens of a day (UTC) of accounts whose terms bound a category.';

GRANT SELECT, INSERT, UPDATE (open) ON category_gate TO svc_billing;
GRANT SELECT, INSERT, UPDATE (used, cap, excess) ON category_tokens TO svc_billing;

-- What an account's discount takes off a list price is borne by the platform (e:discount). It is
-- no column of a seal, because the list price, the charge and the shortfall are.
ALTER TABLE usage_settlement ADD COLUMN discount bigint NOT NULL DEFAULT 0 CHECK (discount >= 0);
ALTER TABLE usage_settlement DROP CONSTRAINT payg_is_charged;
CREATE TRIGGER payg_is_charged AFTER INSERT ON usage_settlement FOR EACH ROW
    WHEN (NEW.charged + NEW.shortfall + NEW.discount <> CASE NEW.source WHEN 'payg' THEN NEW.list_price ELSE 0 END
        OR NEW.discount > 0 AND NEW.discount >= NEW.list_price)
    EXECUTE FUNCTION refuse_uneven_charge();

-- +goose StatementBegin
DO $$
DECLARE
    actions text := (SELECT pg_get_constraintdef(oid) FROM pg_constraint
        WHERE conrelid = 'operator_action'::regclass AND conname = 'operator_action_action_check');
BEGIN
    ALTER TABLE operator_action DROP CONSTRAINT operator_action_action_check;
    EXECUTE 'ALTER TABLE operator_action ADD CONSTRAINT operator_action_action_check '
        || replace(actions, '])', ', ''set_terms''::text])');
END $$;
-- +goose StatementEnd
