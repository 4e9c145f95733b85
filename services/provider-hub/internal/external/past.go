package external

// past is what a caller knew of its endpoint, for the caller of the next revision: a change of the name
// alone must not put a server that fails back into service.
type past struct {
	endpoint *Endpoint
	key      key
	record   record
	resting  *resting
}

// of reports whether what was known holds for an endpoint as it is now: its server, key and models are
// the same.
func (p *past) of(e *Endpoint, k key) bool {
	return p.endpoint.BaseURL == e.BaseURL && p.key.Reveal() == k.Reveal() && sameModels(p.endpoint.Models, e.Models)
}
