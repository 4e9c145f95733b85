package main

import (
	"testing"

	"inference-bench/internal/vitals"
)

func TestAProcessIsAPidAndAURL(t *testing.T) {
	var p vitals.Process
	if err := parseProcess("12,http://127.0.0.1:1", &p); err != nil {
		t.Errorf("got the error %v, want none", err)
	} else if p != (vitals.Process{Pid: 12, Admin: "http://127.0.0.1:1"}) {
		t.Errorf("p: got %+v, want %+v", p, vitals.Process{Pid: 12, Admin: "http://127.0.0.1:1"})
	}
	for _, bad := range []string{"", "12", "x,http://127.0.0.1:1", ",http://127.0.0.1:1"} {
		if err := parseProcess(bad, &p); err == nil {
			t.Errorf("%q is a process", bad)
		}
	}
}
