// Package tables says what settlement keeps in PostgreSQL. It is apart from package settlement, so that a program
// which makes logins and tables links no library of chains.
package tables

import (
	"svc.internal/pkg/pg"
	"svc.internal/services/settlement/internal/store"
)

// Tables are the tables of the service.
func Tables() pg.Tables {
	return pg.Tables{Schema: store.Schema, Role: store.Role, Migrations: store.Migrations}
}
