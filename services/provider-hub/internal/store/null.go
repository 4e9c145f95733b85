package store

import (
	"time"

	"svc.internal/pkg/ids"
)

// zero is the zero time for nil, and null the reverse.
func zero(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}

func null(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func nullText(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func idTexts[K any](list []ids.Of[K]) []string {
	texts := make([]string, len(list))
	for i, id := range list {
		texts[i] = id.String()
	}
	return texts
}
