package challenge

import "svc.internal/services/provider-hub/internal/quota"

// MaxBody bounds the body of an order, in bytes.
const MaxBody = maxBody

// SetRoom takes the place of MaxBytes.
func (r *Runner) SetRoom(bytes int64) { r.room = quota.NewBudget(bytes) }
