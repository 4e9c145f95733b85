package store

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/usage"
)

// cachedRate is the rate of cached prompt tokens in the price version that a hold h pins.
const cachedRate = `coalesce((SELECT v.cached_rate FROM vendor_price v
	WHERE v.price_version_id = h.price_version_id), 0)`

// servedByVendor reports whether a vendor served the request of a row e of the view evidence and its hold
// h. A vendor is not in the table vendor before its first usage was settled, but vendors alone serve
// gateway models. Vendors sign no work receipts, so whoever signed one is a provider, whatever the model.
const servedByVendor = `(EXISTS (SELECT FROM vendor v WHERE v.vendor_id = e.provider_id)
	OR e.work_receipt_tokens IS NULL
		AND EXISTS (SELECT FROM vendor_price v WHERE v.price_version_id = h.price_version_id))`

const selectVendors = `SELECT vendor_id FROM vendor WHERE vendor_id = ANY ($1)`

func scanVendors(rows pgx.Rows, into map[ids.ProviderID]bool) error {
	var vendor [16]byte
	_, err := pgx.ForEachRow(rows, []any{&vendor}, func() error {
		into[vendor] = true
		return nil
	})
	return err
}

// insertVendors stores who is a vendor, in the order of ids, so that two batches with the same
// new vendors do not wait for each other in a circle.
func insertVendors(batch *pgx.Batch, vendors []ids.ProviderID) {
	if len(vendors) == 0 {
		return
	}
	sorted := slices.SortedFunc(slices.Values(vendors), func(a, b ids.ProviderID) int { return bytes.Compare(a[:], b[:]) })
	batch.Queue(`INSERT INTO vendor (vendor_id) SELECT unnest($1::uuid[]) ON CONFLICT DO NOTHING`, raw(sorted))
}

// keepVendorPrices stores the price versions of gateway models that reservations pin, with their rates
// for cached prompt tokens, before a hold pins them. It calls the database once for each version, unless
// more than maxVendorPrices versions are in use.
func (s *Store) keepVendorPrices(ctx context.Context, reservations []hold.Reservation) error {
	for _, r := range reservations {
		if !r.Gateway && r.Rates.PayoutCachedInput == 0 || s.vendorPrices.has(r.Price) {
			continue
		}
		if _, err := s.pool.Exec(ctx, `INSERT INTO vendor_price (price_version_id, cached_rate) VALUES ($1, $2)
			ON CONFLICT DO NOTHING`, [16]byte(r.Price), int64(r.Rates.PayoutCachedInput)); err != nil {
			return fmt.Errorf("keep the price of a vendor: %w", err)
		}
		s.vendorPrices.add(r.Price)
	}
	return nil
}

// cachedOf returns the cached prompt tokens of a line, which count for vendors alone.
func cachedOf(l usage.Line) int64 {
	if !l.Event.Vendor {
		return 0
	}
	return l.Event.CachedPrompt
}
