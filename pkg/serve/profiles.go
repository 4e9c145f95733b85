package serve

import (
	"net/http"
	"net/http/pprof"
	"runtime"
	"sync"
	"time"
)

// While a profile of waiting is taken, one of mutexFraction waits for a lock is sampled, and
// about one wait of any kind for each blockEach spent waiting.
const (
	mutexFraction = 5
	blockEach     = 10 * time.Microsecond
)

// profileHandler answers below /debug/pprof/. A process samples waiting for locks (mutex) and
// for anything (block) only while such a profile is taken, by ?seconds=N, because
// sampling costs each wait some CPU. Without seconds these two are empty.
func profileHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	mux.Handle("GET /debug/pprof/mutex", &sampled{Handler: pprof.Handler("mutex"), sample: func(on bool) {
		if !on {
			runtime.SetMutexProfileFraction(0)
			return
		}
		runtime.SetMutexProfileFraction(mutexFraction)
	}})
	mux.Handle("GET /debug/pprof/block", &sampled{Handler: pprof.Handler("block"), sample: func(on bool) {
		if !on {
			runtime.SetBlockProfileRate(0)
			return
		}
		runtime.SetBlockProfileRate(int(blockEach))
	}})
	return mux
}

// sampled has a process sample something while a profile of it is taken.
type sampled struct {
	http.Handler
	sample func(on bool)
	taking sync.Mutex
}

func (s *sampled) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.FormValue("seconds") != "" {
		// The first of two to end would switch the sampling off for the other.
		if !s.taking.TryLock() {
			http.Error(w, "another such profile is being taken", http.StatusConflict)
			return
		}
		defer s.taking.Unlock()
		s.sample(true)
		defer s.sample(false)
	}
	s.Handler.ServeHTTP(w, r)
}
