package store_test

import (
	"bytes"
	"errors"
	"slices"

	"svc.internal/services/settlement/internal/contract"
)

// unjoin returns the errors of a joined error.
func unjoin(err error) []error {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		return joined.Unwrap()
	}
	return []error{err}
}

func isLost(err error) bool { return errors.Is(err, errAnswerLost) }

func sortedPenalties(c *modelled) []contract.Word {
	var list []contract.Word
	for id := range c.penalties {
		list = append(list, id)
	}
	slices.SortFunc(list, func(a, b contract.Word) int { return bytes.Compare(a[:], b[:]) })
	return list
}
