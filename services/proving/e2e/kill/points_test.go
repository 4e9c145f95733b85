package kill

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// stage is how far a request has come at a point.
type stage int

// The stages, in their order.
const (
	// admission: nothing has been sent to a provider.
	admission stage = iota
	// dispatched: a provider may be at work, and nothing of its answer is known.
	dispatched
	// relaying: a part of the answer is on its way to the client.
	relaying
	// finished: the usage is on the hub's disk.
	finished
	// answered: the client has everything, or was sent it.
	answered
	// settling: the usage is with billing-ledger or settlement.
	settling
)

// shape says which requests reach a point.
type shape int

const (
	// anyShape: streamed and whole requests in turn.
	anyShape shape = iota
	// streamed requests alone reach the point.
	streamed
	// long streams alone reach it.
	long
)

// point is a named step of a request.
type point struct {
	name  string
	stage stage
	shape shape
}

// points are all points, in the order in which a request meets them, as far as there is
// one.
var points = []point{
	{"router.selected", admission, anyShape},
	{"billing.admit.before_commit", admission, anyShape},
	{"billing.admit.committed", admission, anyShape},
	{"gateway.admitted", admission, anyShape},
	{"gateway.dispatched", dispatched, anyShape},
	{"hub.dispatch.journalled", dispatched, anyShape},
	{"hub.open.sent", dispatched, anyShape},
	{"hub.content.first", relaying, anyShape},
	{"gateway.committed", relaying, anyShape},
	{"hub.commit.journalled", relaying, anyShape},
	{"gateway.relaying", relaying, streamed},
	{"hub.progress", relaying, long},
	{"hub.final.synced", finished, anyShape},
	{"gateway.finished", finished, anyShape},
	{"gateway.answered", answered, anyShape},
	{"billing.conclude.before_commit", answered, anyShape},
	{"billing.conclude.committed", answered, anyShape},
	{"gateway.concluded", answered, anyShape},
	{"hub.usage.published", finished, anyShape},
	{"hub.usage.acked", finished, anyShape},
	{"billing.settle.before_commit", settling, anyShape},
	{"billing.settle.committed", settling, anyShape},
	{"billing.settled.noted", settling, anyShape},
	{"settlement.line.before_commit", settling, anyShape},
	{"settlement.line.committed", settling, anyShape},
	{"hub.settled.marked", settling, anyShape},
}

// dealt are the points of a half. Neighbours go to different halves, because their cells
// take about as long.
func dealt(half int) []point {
	var mine []point
	for i := half; i < len(points); i += halves {
		mine = append(mine, points[i])
	}
	return mine
}

// ofVerifier begins the names of points that no request reaches. Package verification has a
// verifier killed at each of them.
const ofVerifier = "verifier."

// ofCards and ofSigner begin the names of points that no request reaches. Package settlement has a process killed at
// each of them.
const ofCards, ofSigner = "billing.card.", "signer."

// ofRequests begins the names of settlement's points that a request reaches. At its others, which are those of days,
// payouts, collateral and chains, package settlement has a process killed, and package chaos at some.
const ofRequests, ofSettlement = "settlement.line.", "settlement."

// elsewhere are points that a request reaches only after a hub was lost, those of subscriptions and of what accounts
// are told, which no request reaches, and those of slices, which only busy accounts have. The tests of their own
// service cover the first, and package chaos has an owner of slices killed at the last.
var elsewhere = []string{"billing.slice.admitted", "billing.turn.before_commit", "billing.turn.committed",
	"billing.receipt.before_commit", "billing.receipt.committed",
	"billing.subscription.paid_before_commit", "billing.subscription.told", "billing.subscription.refund_made",
	"billing.subscription.returned_before_commit", "billing.account_event.committed", "billing.webhook.sent"}

// owner is the service that stands at a point.
func (p point) owner() victim {
	word, _, _ := strings.Cut(p.name, ".")
	return map[string]victim{
		"router": routerVictim, "billing": billing, "gateway": gateway, "hub": hub, "settlement": settlementVictim,
	}[word]
}

func TestEveryPointIsInOneHalf(t *testing.T) {
	var all []point
	for half := range halves {
		all = append(all, dealt(half)...)
	}
	if len(all) != len(points) {
		t.Errorf("got %d points dealt, want %d", len(all), len(points))
	}
	for _, p := range points {
		if !slices.Contains(all, p) {
			t.Errorf("got no half with %s, want one", p.name)
		}
	}
}

// mark finds points in source text.
var mark = regexp.MustCompile(`crash\.At\("([^"]*)"\)`)

// services is the folder of all services.
const services = "../../.."

func TestTheTableHasEveryPointOfTheTreeOnce(t *testing.T) {
	found := map[string][]string{}
	err := filepath.WalkDir(services, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range mark.FindAllSubmatch(text, -1) {
			found[string(m[1])] = append(found[string(m[1])], path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, places := range found {
		if len(places) != 1 {
			t.Errorf("%s stands in several places: got %d, want 1, in %v", name, len(places), places)
		}
		if strings.HasPrefix(name, ofVerifier) || strings.HasPrefix(name, ofCards) || strings.HasPrefix(name, ofSigner) ||
			strings.HasPrefix(name, ofSettlement) && !strings.HasPrefix(name, ofRequests) {
			continue
		}
		if !slices.Contains(elsewhere, name) && !slices.ContainsFunc(points, func(p point) bool { return p.name == name }) {
			t.Errorf("%s of %v is not in the table", name, places)
		}
	}
	for i, p := range points {
		if len(found[p.name]) == 0 {
			t.Errorf("%s is in the table and nowhere in the tree: got 0, want at least 1", p.name)
		}
		if p.owner() == "" {
			t.Error(`nobody stands: got "", want some text`)
		}
		if slices.ContainsFunc(points[:i], func(q point) bool { return p.name == q.name }) {
			t.Errorf("%s is in the table twice", p.name)
		}
	}
}
