package httpapi

import (
	"maps"
	"net/http"
	"slices"

	"svc.internal/services/edge-gateway/internal/pages"
)

// pageOf is the pattern of every page and of every file that pages load. Logs and metrics have it in
// place of the path, because browsers may ask for any path below it.
const pageOf = pages.Root + "{page}"

// pageRoute is the route of the pages of a listener.
func pageRoute(site *pages.Site) route {
	return route{pageOf, get, func(h *Handler, x *exchange) error { return h.page(site, x) }}
}

// routeOf returns the route of a request, and the path's variable part, still escaped. A page has a route
// for the methods that read alone. Its path has no route for any other method, as a path that nobody
// knows.
func (s surface) routeOf(r *http.Request) (route, string) {
	path := r.URL.EscapedPath()
	if slices.Contains(get, r.Method) && pages.Takes(path, r.Header.Values("Accept")) {
		return s.page, ""
	}
	return s.find(path)
}

// page answers with a page, or with a file that pages load. A file that is not there is no route, so that
// no browser takes a page for a script.
func (h *Handler) page(site *pages.Site, x *exchange) error {
	answer, ok := site.Answer(x.request.URL.EscapedPath(), x.request.Header)
	if !ok {
		return unknown.serve(h, x)
	}
	maps.Copy(x.Header(), answer.Header)
	h.answer(x, answer.Status, answer.Body)
	return nil
}
