package demo

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	hubv1 "svc.internal/proto/svc/hub/v1"
)

// renewInterval is the pause between two confirmations of the demo's benchmark, which
// counts for 30 days.
const renewInterval = 24 * time.Hour

// Keep renews the demo's provider every day until ctx ends, so that a demo that runs for
// long stays active. A failure is logged, and tried again a day later.
func Keep(ctx context.Context, providers hubv1.ProviderAdminServiceClient, id string, log *slog.Logger) {
	every := time.NewTicker(renewInterval)
	defer every.Stop()
	keep(ctx, every.C, providers, id, log)
}

func keep(
	ctx context.Context, ticks <-chan time.Time, providers hubv1.ProviderAdminServiceClient, id string, log *slog.Logger,
) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks:
			if err := Renew(ctx, providers, id); err != nil && ctx.Err() == nil {
				log.Warn("the demo's provider was not renewed", "error", err)
			}
		}
	}
}

// Renew makes the benchmark of the demo's provider count from now on, and makes the
// provider active again where it fell back. A provider that was suspended or rejected
// stays so.
func Renew(ctx context.Context, providers hubv1.ProviderAdminServiceClient, id string) error {
	got, err := providers.GetProviderDetail(ctx, &hubv1.GetProviderDetailRequest{ProviderId: id})
	if err != nil {
		return fmt.Errorf("read the demo's provider: %w", err)
	}
	switch got.GetProvider().GetStatus() {
	case hubv1.ProviderStatus_PROVIDER_STATUS_ACTIVE:
		passed := true
		if _, err := providers.ConfirmQualification(ctx, &hubv1.ConfirmQualificationRequest{
			ProviderId: id, Benchmark: &passed, Reason: "the demo renews itself",
		}); err != nil {
			return fmt.Errorf("renew the benchmark of the demo's provider: %w", err)
		}
	case hubv1.ProviderStatus_PROVIDER_STATUS_SUSPENDED, hubv1.ProviderStatus_PROVIDER_STATUS_REJECTED:
	default:
		if _, err := providers.SetProviderStatus(ctx, &hubv1.SetProviderStatusRequest{
			ProviderId: id, Status: hubv1.ProviderStatus_PROVIDER_STATUS_ACTIVE, Reason: "the demo renews itself",
		}); err != nil {
			return fmt.Errorf("activate the demo's provider again: %w", err)
		}
	}
	return nil
}
