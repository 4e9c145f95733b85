package price

import (
	"testing"

	"svc.internal/pkg/fault"
)

func TestBookTellsNotReadFromNotThere(t *testing.T) {
	b := &Book{}
	if _, err := b.Find("m"); !fault.Is(err, fault.AdmissionUnavailable) || b.Loaded() {
		t.Errorf("before the first copy: %v", err)
	}
	b.Replace(map[string]Model{"m": {ID: "m"}})
	if m, err := b.Find("m"); err != nil || m.ID != "m" || !b.Loaded() {
		t.Errorf("found %+v: %v", m, err)
	}
	b.Replace(map[string]Model{})
	if _, err := b.Find("m"); !fault.Is(err, fault.ModelNotFound) {
		t.Errorf("after it was taken out: %v", err)
	}
}
