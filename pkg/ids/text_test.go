package ids_test

import (
	"encoding/json"
	"errors"
	"testing"

	"svc.internal/pkg/ids"
)

func TestAnIDIsItsCanonicalFormInJSON(t *testing.T) {
	t.Parallel()
	const text = `"0198c2a4-7d10-7a6b-8c5d-0123456789ab"`
	var id ids.RequestID
	if err := json.Unmarshal([]byte(text), &id); err != nil {
		t.Fatalf("read %s: %v", text, err)
	}
	got, err := json.Marshal(id)
	if err != nil {
		t.Fatalf("write the id: %v", err)
	}
	if string(got) != text {
		t.Errorf("got %s, want %s", got, text)
	}
}

func TestTheZeroIDIsAnEmptyTextInJSON(t *testing.T) {
	t.Parallel()
	got, err := json.Marshal(ids.RequestID{})
	if err != nil {
		t.Fatalf("write the id: %v", err)
	}
	if string(got) != `""` {
		t.Errorf("got %s, want an empty text", got)
	}
	id := ids.RequestID{1}
	if err := json.Unmarshal(got, &id); err != nil {
		t.Fatalf("read the id: %v", err)
	}
	if !id.IsZero() {
		t.Errorf("got %v, want the zero id", id)
	}
}

func TestTextThatIsNoIDLeavesTheIDAsItWas(t *testing.T) {
	t.Parallel()
	before := ids.RequestID{1}
	after := before
	if err := after.UnmarshalText([]byte("no id")); !errors.Is(err, ids.ErrMalformed) {
		t.Errorf("got %v, want %v", err, ids.ErrMalformed)
	}
	if after != before {
		t.Errorf("got %v, want %v", after, before)
	}
}
