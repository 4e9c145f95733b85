package user

import "testing"

// BenchmarkComparison compares a wrong password with the hash of a user and, as when
// there is no user, with the hash of nobody. Both must take the same time.
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
