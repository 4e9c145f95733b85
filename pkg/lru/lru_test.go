package lru_test

import (
	"slices"
	"testing"

	"svc.internal/pkg/lru"
)

func TestWhatWasUsedLeastRecentlyIsDropped(t *testing.T) {
	var dropped []string
	m := lru.New(2, func(k string, v int) { dropped = append(dropped, k) })
	m.Add("a", 1)
	m.Add("b", 2)
	m.Get("a")
	m.Peek("b") // no use
	m.Add("c", 3)
	if want := []string{"b"}; !slices.Equal(dropped, want) {
		t.Errorf("got %q dropped, want %q", dropped, want)
	}
	if got, want := m.Keys(), []string{"a", "c"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	m.Remove("a")
	if want := []string{"b", "a"}; !slices.Equal(dropped, want) {
		t.Errorf("got %q dropped, want %q", dropped, want)
	}
}

func TestAMapWithoutRoomIsAMistakeOfTheProgram(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("got a map of no entries, want a panic")
		}
	}()
	lru.New[int, int](0, nil)
}
