package cheat

import (
	"math/rand/v2"
	"net/http"
)

// Rerouting serves a share of the requests, in percent and drawn at random, by a cheaper
// engine, and the rest honestly.
func Rerouting(honest, cheaper http.Handler, percent int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if rand.IntN(100) < percent { //nolint:gosec // no secret
			cheaper.ServeHTTP(w, r)
			return
		}
		honest.ServeHTTP(w, r)
	})
}
