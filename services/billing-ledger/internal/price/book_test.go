package price

import (
	"testing"

	"svc.internal/pkg/fault"
)

func TestBookTellsNotReadFromNotThere(t *testing.T) {
	b := &Book{}
	if _, err := b.Find("m"); !fault.Is(err, fault.AdmissionUnavailable) {
		t.Errorf("before the first copy: got the error %v, want the reason %v", err, fault.AdmissionUnavailable)
	} else if b.Loaded() {
		t.Error("before the first copy: b.Loaded(): got true, want false")
	}
	b.Replace(map[string]Model{"m": {ID: "m"}})
	switch m, err := b.Find("m"); {
	case err != nil:
		t.Errorf("got the error %v, want none", err)
	case m.ID != "m":
		t.Errorf(`found: m.ID: got %q, want "m"`, m.ID)
	case !b.Loaded():
		t.Error("b.Loaded(): got false, want true")
	}
	b.Replace(map[string]Model{})
	if _, err := b.Find("m"); !fault.Is(err, fault.ModelNotFound) {
		t.Errorf("after it was taken out: got the error %v, want the reason %v", err, fault.ModelNotFound)
	}
}
