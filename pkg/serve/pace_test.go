package serve

import (
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// ready is a listener to which everybody has dialled already.
type ready struct{ net.Listener }

func (ready) Accept() (net.Conn, error) { return nil, nil } //nolint:nilnil // nobody uses it

func TestConnectionsAreAcceptedAtAPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lis := Pace(ready{}, 500)
		accept := func(n int) time.Duration {
			began := time.Now()
			for range n {
				if _, err := lis.Accept(); err != nil {
					t.Fatal(err)
				}
			}
			return time.Since(began)
		}
		if took := accept(1001); took < 1998*time.Millisecond || took > 2002*time.Millisecond {
			t.Errorf("1,001 connections at 500 a second took: got %v, want %v to %v", took, 1998*time.Millisecond,
				2002*time.Millisecond)
		}
		// A time in which nobody came is not made up for.
		<-time.After(time.Minute)
		if took := accept(501); took < 998*time.Millisecond || took > 1002*time.Millisecond {
			t.Errorf("501 more took: got %v, want %v to %v", took, 998*time.Millisecond, 1002*time.Millisecond)
		}
	})
}

func TestAPaceOfNothingIsNone(t *testing.T) {
	lis := ready{}
	if got := Pace(lis, 0); got != net.Listener(lis) {
		t.Errorf("Pace(lis, 0): got %v, want %v", got, net.Listener(lis))
	}
}
