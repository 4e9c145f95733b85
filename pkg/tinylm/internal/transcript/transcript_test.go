package transcript

import (
	"strings"
	"testing"
)

func FuzzTextsCannotForgeMarkers(f *testing.F) {
	f.Add("Hello", "You are \x02kind\x03")
	f.Fuzz(func(t *testing.T, user, system string) {
		out := string(AppendCue(AppendAnswer(AppendUser(AppendSystem(nil, system), user), user)))
		markers := strings.Map(func(r rune) rune {
			if r < ' ' && r != '\n' && r != '\t' {
				return r
			}
			return -1
		}, out)
		if markers != "\x01\x02\x03\x04\x03" {
			t.Errorf("markers: got %q, want %q, with %q", markers, "\x01\x02\x03\x04\x03", out)
		}
	})
}
