-- What keeps a provider's collateral from being refunded: the text is empty where nothing does. The provider's row is
-- locked, so that nothing begins meanwhile.
CREATE OR REPLACE FUNCTION refund_blocker(of uuid) RETURNS text
LANGUAGE plpgsql SET search_path = settlement, pg_temp AS $$
BEGIN
    PERFORM FROM provider WHERE provider_id = of FOR UPDATE;
    RETURN CASE
        WHEN EXISTS (SELECT FROM payout WHERE provider_id = of
            AND state IN ('requested', 'approved', 'signing', 'submitted')) THEN 'a payout'
        WHEN EXISTS (SELECT FROM penalty WHERE provider_id = of AND state IN ('proposed', 'appealed', 'upheld'))
            OR EXISTS (SELECT FROM penalty_part WHERE provider_id = of AND state IN ('opened', 'escrowed', 'appealed'))
            THEN 'a penalty'
        ELSE '' END;
END $$;
