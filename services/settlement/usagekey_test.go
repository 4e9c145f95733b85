package settlement

import (
	"encoding/binary"
	"errors"
	"testing"

	"svc.internal/pkg/usageseal"
)

func TestAHubHandsOverSoManyNewKeysADay(t *testing.T) {
	t.Parallel()
	const most = 300
	b := setup(t)
	key := func(n int) (k usageseal.Key) {
		binary.BigEndian.PutUint64(k.ID[:], uint64(n))
		return k
	}
	for n := range most {
		if err := b.service.ring.Take(t.Context(), "hub-1", key(n)); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		hub  string
		n    int
		want error
	}{
		"one too many": {"hub-1", most, usageseal.ErrTooManyKeys}, "one that stands": {"hub-1", 5, nil},
		"one of another hub": {"hub-2", 5, nil},
	} {
		if err := b.service.ring.Take(t.Context(), c.hub, key(c.n)); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
	}
	if n := b.count(t, "SELECT count(*) FROM usage_key WHERE hub_id = 'hub-1'"); n != most {
		t.Errorf("got %d keys, want %d", n, most)
	}
}
