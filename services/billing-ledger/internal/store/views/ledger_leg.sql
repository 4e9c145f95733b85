-- Everything that is recorded, leg by leg.
CREATE OR REPLACE VIEW ledger_leg AS
    SELECT k.line, e.at, p.account_kind, p.owner_id, p.book, p.asset, p.amount
    FROM posting p JOIN entry e ON e.id = p.entry_id JOIN entry_kind k ON k.kind = e.kind
    UNION ALL
    SELECT line, at, account_kind, owner_id, book, 'usd', amount FROM usage_leg;

GRANT SELECT ON ledger_leg TO svc_billing;
