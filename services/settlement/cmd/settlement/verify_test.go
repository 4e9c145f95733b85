package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestVerifyRefusesWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"-x"}, "usage: settlement verify"},
		{[]string{"all"}, "usage: settlement verify"},
		{[]string{"-rpc", "8453=http://127.0.0.1:1"}, "usage: settlement verify"},
		{[]string{"-config", "x.yaml"}, "usage: settlement verify"},
		{[]string{"--chain"}, "DATABASE_URL is not set"},
	} {
		var out, errs bytes.Buffer
		if got := runVerify(t.Context(), &out, &errs, nil, nil, c.args); got != exitUnknown {
			t.Errorf("%q: got the exit code %d, want %d", c.args, got, exitUnknown)
		}
		if !strings.Contains(errs.String(), c.says) {
			t.Errorf("%q: got %q, want %q in it", c.args, errs.String(), c.says)
		}
	}
}
