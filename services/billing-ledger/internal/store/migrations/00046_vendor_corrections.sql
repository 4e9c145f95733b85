-- Two operators say the same of a large correction, too.

-- +goose Up

-- A correction is large above a tenth of the count and $100, whether the invoice asks for more or
-- for less. An invoice of $10,000 with next to nothing counted would otherwise be paid by one
-- person or a machine, again and again, although nothing is owed for it. What was paid before this
-- rule stands, so it is not checked.
ALTER TABLE vendor_invoice DROP CONSTRAINT vendor_invoice_by_two;
ALTER TABLE vendor_invoice ADD CONSTRAINT vendor_invoice_by_two CHECK (paid_at IS NULL
    OR greatest(amount, counted) <= 10000000000000 AND abs(amount - counted) <= greatest(counted / 10, 100000000000)
    OR paid_by <> asked_by AND paid_by LIKE '%@%' AND asked_by LIKE '%@%') NOT VALID;
