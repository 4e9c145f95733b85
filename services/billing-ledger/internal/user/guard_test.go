package user

import (
	"context"
	"errors"
	"testing"

	"svc.internal/pkg/fault"
)

func TestAnAttemptIsTakenBackUnlessItsCredentialsWereWrong(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		back int
	}{
		"right": {nil, 0}, "wrong": {fault.New(fault.Unauthenticated, fault.InvalidCredentials, "wrong"), 0},
		"broken": {errors.New("the store is away"), 1},
	} {
		taken, back := 0, 0
		tries := Tries{
			Take:     func(context.Context) (bool, error) { taken++; return true, nil },
			GiveBack: func(context.Context) error { back++; return nil },
		}
		err := NewPasswordPlaces(1).Guard(t.Context(), "home", tries, func() error { return tc.err })
		if !errors.Is(err, tc.err) {
			t.Errorf("%s: got %v, want %v", name, err, tc.err)
		}
		if taken != 1 {
			t.Errorf("%s: counted: got %d, want 1", name, taken)
		}
		if back != tc.back {
			t.Errorf("%s: taken back: got %d, want %d", name, back, tc.back)
		}
	}
}

func TestNothingIsComparedForACallThatFindsNoRoom(t *testing.T) {
	full := fault.New(fault.Exhausted, fault.RateLimitExceeded, "full")
	tries := Tries{Take: func(context.Context) (bool, error) { return false, full }}
	err := NewPasswordPlaces(1).Guard(t.Context(), "home", tries, func() error {
		t.Error("a password was compared")
		return nil
	})
	if !fault.Is(err, fault.RateLimitExceeded) {
		t.Errorf("got %v, want %s", err, fault.RateLimitExceeded)
	}
}

func TestPlacesOfAnotherPackageAreAsManyAsItAsksFor(t *testing.T) {
	p := NewPasswordPlaces(1)
	inside, out := make(chan struct{}), make(chan struct{})
	done := make(chan error, 2)
	hold := func() error {
		inside <- struct{}{}
		<-out
		return nil
	}
	for range 2 {
		go func() { done <- p.Hash(t.Context(), "home", hold) }()
	}
	<-inside
	select {
	case <-inside:
		t.Error("two passwords are hashed at a time, want one")
	default:
	}
	out <- struct{}{}
	<-inside
	out <- struct{}{}
	for range 2 {
		if err := <-done; err != nil {
			t.Errorf("got %v, want no error", err)
		}
	}
}
