package auditor

func (w *world) takeAdoptedCall(r *record) {
	put(w, r, w.adopted.calls, r.nonce(), w.once(r.text("what")))
}

func (w *world) takeAdoptedPayout(r *record) { put(w, r, w.adopted.payouts, r.id("payout_id"), true) }

// checkAdopted checks that what was lost of a database is there again: each payout, and each nonce with what explains
// it. That a payout is received once is checked as of every other one.
func (a *audit) checkAdopted() {
	for at, what := range a.adopted.calls {
		c := a.sends[at]
		switch {
		case c == nil:
			a.r.found(Drift, at.subject(), "nonce %d was adopted, and is not there", at.n)
		case what == "unknown":
			a.r.found(Drift, at.subject(), "nonce %d was adopted, and nothing explains it", at.n)
		case what == "payout" && c.purpose != "payout":
			a.r.found(Drift, at.subject(), "nonce %d was adopted as a payout, and is %s %s", at.n, c.purpose, c.ref)
		default:
			a.r.count("transactions that were adopted")
		}
	}
	for _, u := range sortedIDs(a.adopted.payouts) {
		if a.paid[u] == nil {
			a.r.found(Unpaid, about("payout", u), "it was adopted, and is not there")
			continue
		}
		a.r.count("payouts that were adopted")
	}
}
