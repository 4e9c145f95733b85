package store

import "svc.internal/pkg/pg"

// Unavailable reports whether an error means that the database does not answer now, so that
// whatever is asked next would fail too.
func Unavailable(err error) bool { return pg.IsUnavailable(err) }
