package stripe

import (
	"bufio"
	"os/exec"
	"regexp"
	"testing"
	"time"

	"svc.internal/services/billing-ledger/internal/card"
)

// listening is what stripe-mock says once it listens.
var listening = regexp.MustCompile(`Listening for HTTP.*?(127\.0\.0\.1:\d+)`)

// startMock runs stripe-mock, which holds each request against the processor's own description of
// its API. Where the program is not installed, the test is skipped.
func startMock(t *testing.T) *Processor {
	t.Helper()
	program, err := exec.LookPath("stripe-mock")
	if err != nil {
		t.Skip("stripe-mock is not installed: go install github.com/stripe/stripe-mock@v0.203.0")
	}
	run := exec.CommandContext(t.Context(), program, "-http-addr", "127.0.0.1:0", "-strict-version-check=false")
	out, err := run.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = run.Process.Kill()
		_ = run.Wait()
	})
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if at := listening.FindStringSubmatch(lines.Text()); at != nil {
			go func() { // or the program waits for somebody to read
				for lines.Scan() { // what it says is not needed
				}
			}()
			p, err := New("sk_test_0123456789", "http://"+at[1])
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
	}
	t.Fatal("stripe-mock does not listen")
	return nil
}

func TestTheProcessorsDescriptionAcceptsEachRequest(t *testing.T) {
	t.Parallel()
	p := startMock(t)
	for name, call := range map[string]func() error{
		"a page of credit": func() error { _, err := p.CreateSession(t.Context(), order(card.TopUp)); return err },
		"a page of a plan": func() error { _, err := p.CreateSession(t.Context(), order(card.PlanPurpose)); return err },
		"fetch a page":     func() error { _, err := p.FetchSession(t.Context(), "cs_1"); return err },
		"fetch a refund": func() error {
			_, err := p.FetchReturn(t.Context(), card.Object{Kind: card.RefundObject, ID: "re_1"})
			return err
		},
		"fetch a dispute": func() error {
			_, err := p.FetchReturn(t.Context(), card.Object{Kind: card.DisputeObject, ID: "dp_1"})
			return err
		},
		"a balance":             func() error { _, err := p.FetchBalance(t.Context(), "pi_1"); return err },
		"a refund":              func() error { _, err := p.Refund(t.Context(), "r/2", "pi_1", 700); return err },
		"fetch a subscription":  func() error { _, err := p.FetchSubscription(t.Context(), "sub_1"); return err },
		"fetch an invoice":      func() error { _, err := p.FetchInvoice(t.Context(), "in_1"); return err },
		"list invoices":         func() error { _, _, err := p.ListInvoices(t.Context(), "sub_1", "in_1"); return err },
		"end at a period's end": func() error { return p.EndAtPeriodEnd(t.Context(), "sub_1", true) },
		"list events": func() error {
			_, _, err := p.List(t.Context(), time.Now().Add(-time.Hour), "evt_1")
			return err
		},
	} {
		if err := call(); err != nil {
			t.Errorf("%s: got the error %v, want none", name, err)
		}
	}
}
