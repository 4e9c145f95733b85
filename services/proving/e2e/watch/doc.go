// Package watch holds what operators watch to a real fleet: each metric that dashboards,
// alerts and objectives name is exposed by some process, each metric that a process exposes
// is shown or left out for a stated reason, each panel has data in a real Prometheus, and
// alerts fire by their faults. make watch-check runs its tests.
package watch
