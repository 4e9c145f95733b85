package edgegateway

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
)

var variables = regexp.MustCompile(`\{[^}]*\}`)

// Hostile test 59: bytes that are no text go into no call to a service, which
// would fail of them where it is another process. The peers are behind sockets.
func TestWhatIsNoTextIsTheClientsFault(t *testing.T) {
	f := connectFleet(t, overSockets).start()
	wantJSON(t, f.do(http.MethodPost, "/api/v1/consumer/upgrade-to-provider", `{"name":"Ann's"}`, "Authorization",
		"Bearer "+sessionToken), http.StatusCreated, nil)
	asked := 0
	for _, o := range operations(t) {
		plain := f.ask(o, f.credential(o)...)
		if read(t, plain); plain.StatusCode >= http.StatusInternalServerError && !o.operators {
			continue // the peers of this test do not have it
		}
		paths := []string{o.path + "?category=%ff&cursor=%ff&first_day=%ed%a0%80&model_id=%ff&page=%ff&provider_id=%ff"}
		if strings.Contains(o.template, "{") {
			paths = append(paths, variables.ReplaceAllString(o.template, "%ff"),
				variables.ReplaceAllString(o.template, "%ed%a0%80"))
		}
		for _, path := range paths {
			asked++
			odd := o
			odd.path = path
			resp := f.ask(odd, f.credential(o)...)
			if body := read(t, resp); resp.StatusCode >= http.StatusInternalServerError {
				t.Errorf("%s: got %d %s, want what is the client's fault", odd, resp.StatusCode, body)
			}
		}
	}
	if asked < 90 {
		t.Errorf("got %d calls, want those of the whole surface", asked)
	}
}
