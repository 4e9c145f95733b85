package user

import "testing"

// BenchmarkComparison is of one wrong password: against that of a user and, when
// there is none, of nobody. Both must take the same time.
func BenchmarkComparison(b *testing.B) {
	kept := made(b, "correct horse")
	for name, h := range map[string]Hash{"user": kept, "nobody": nobody()} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if ok, err := h.matches("wrong horse"); ok {
					b.Fatal("ok: got true, want false")
				} else if err != nil {
					b.Fatalf("got the error %v, want none", err)
				}
			}
		})
	}
}
