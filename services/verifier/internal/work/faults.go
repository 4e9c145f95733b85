package work

import (
	"context"
	"errors"
	"fmt"

	"svc.internal/services/verifier/internal/store"
)

// maxTold bounds the errors of a pass that are told.
const maxTold = 3

// faults are the errors of the rows of a pass. A row that fails keeps no other waiting.
type faults struct {
	first []error
	n     int
}

// add adds the error of a row. It returns the error where it is not the row's own: where the
// pass ends, or the database does not answer, every further row would fail too.
func (f *faults) add(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil || store.Unavailable(err) {
		return err
	}
	if f.n++; len(f.first) < maxTold {
		f.first = append(f.first, err)
	}
	return nil
}

// err returns the first maxTold errors, with the number of the others.
func (f *faults) err() error {
	if more := f.n - len(f.first); more > 0 {
		return fmt.Errorf("%w\nand %d more", errors.Join(f.first...), more)
	}
	return errors.Join(f.first...)
}
