package auditor

// audit is one audit under way.
type audit struct {
	*world
	skew int64 // microseconds
	r    *Report
	// ordered are all requests in the order of their ids, so that two audits of the same
	// files give the same report.
	ordered []id
	// loose are answers of engines that belong to no known request.
	loose []engineCall
	// broken is what was given back of requests whose answers broke off, by business id, in
	// nano-USD.
	broken map[string]int64
}
