package paging_test

import (
	"errors"
	"testing"

	"svc.internal/pkg/fault"
	"svc.internal/services/settlement/internal/paging"
)

func TestAPageIsWithinItsBounds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		number, length, offset, limit int
		refused                       bool
	}{
		{0, 0, 0, 50, false}, {1, 0, 0, 50, false}, {3, 7, 14, 7, false}, {1, 200, 0, 200, false},
		{5_001, 200, 1_000_000, 200, false}, {5_002, 200, 0, 0, true}, {1, 201, 0, 0, true}, {1, -1, 0, 0, true},
		{-1, 50, 0, 0, true},
	} {
		offset, limit := 0, 0
		page, err := paging.Read(c.number, c.length, func(o, l int) ([]string, int, error) {
			offset, limit = o, l
			return []string{"a"}, 9, nil
		})
		if refused := fault.Is(err, fault.InvalidValue); refused != c.refused {
			t.Errorf("page %d of %d: got the error %v, want one: %t", c.number, c.length, err, c.refused)
		}
		if offset != c.offset {
			t.Errorf("page %d of %d: read from %d on, want from %d on", c.number, c.length, offset, c.offset)
		}
		if limit != c.limit {
			t.Errorf("page %d of %d: read %d, want %d", c.number, c.length, limit, c.limit)
		}
		if c.refused {
			continue
		}
		if want := max(c.number, 1); page.Number != want {
			t.Errorf("page %d of %d: got the number %d, want %d", c.number, c.length, page.Number, want)
		}
		if page.Length != c.limit {
			t.Errorf("page %d of %d: got the length %d, want %d", c.number, c.length, page.Length, c.limit)
		}
		if page.Total != 9 {
			t.Errorf("page %d of %d: got %d in all, want 9", c.number, c.length, page.Total)
		}
	}
}

func TestAListThatCannotBeReadHasNoPage(t *testing.T) {
	t.Parallel()
	errRead := errors.New("the list cannot be read")
	page, err := paging.Read(1, 1, func(int, int) ([]string, int, error) { return []string{"a"}, 1, errRead })
	if !errors.Is(err, errRead) {
		t.Errorf("got the error %v, want %v", err, errRead)
	}
	if page.List != nil {
		t.Errorf("got the list %v, want none", page.List)
	}
}
