//go:build watch

package watch

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"svc.internal/services/proving/internal/fleet"
	"svc.internal/services/proving/internal/trial"
)

// unseen are metrics, or their beginnings, that a fleet without faults and without chains does
// not expose. deploy/check holds their names to the code.
var unseen = map[string]string{
	"svc_billing_card_alarms_total":           "a payment by card goes wrong",
	"svc_billing_keyed_answers_total":         "a consumer sends an Idempotency-Key",
	"svc_billing_letters_total":               "a user has a letter",
	"svc_billing_refresh_tokens_reused_total": "a token is stolen",
	"svc_billing_webhook_":                    "an account has an endpoint",
	"svc_billing_holds_expired_total":         "nobody closes a hold",
	"svc_billing_holds_released_total":        "a request is admitted and not served",
	"svc_edge_gateway_reports_dropped_total":  "a queue is full",
	"svc_provider_hub_challenges_total":       "the verifier challenges a provider",
	"svc_provider_hub_claims_":                "a provider has answered a thousand times",
	"svc_settlement_chain":                    "a chain is configured",
	"svc_settlement_custody_unposted":         "a chain is configured",
	"svc_settlement_deposits_":                "a chain is configured",
	"svc_settlement_hot_wallet_units":         "a chain is configured",
	"svc_settlement_lines_":                   "usage is lost on its way",
	"svc_settlement_penalty_parts_":           "a chain is configured",
	"svc_settlement_positions_":               "a chain is configured",
	"svc_settlement_price_known":              "a chain is configured",
	"svc_settlement_refunds_":                 "a provider has collateral",
	"svc_settlement_reserves_":                "a chain is configured",
	"svc_settlement_revaluation_days_behind":  "a chain is configured",
	"svc_settlement_sending_halted":           "a chain is configured",
	"svc_settlement_slashes_foreign_total":    "somebody has the slasher's key",
	"svc_settlement_sweeps_":                  "a chain is configured",
	"svc_settlement_transactions_":            "a chain is configured",
	"svc_settlement_payouts_":                 "a chain is configured",
	"svc_settlement_conversions_stuck":        "a provider converts earnings",
	"svc_settlement_batch_":                   "a day has been sealed",
	"svc_settlement_plan_months_waiting":      "a day has been sealed",
	"svc_signer_":                             "something is to be signed",
	"svc_verifier_common_causes":              "the guard has looked, every few minutes",
	"svc_verifier_absurd_claims_total":        "a provider claims what cannot be",
	"svc_verifier_effects_total":              "there is a verdict",
	"svc_verifier_messages_refused_total":     "a message is out of bounds",
	"svc_verifier_steps_held_total":           "a step is not taken",
	"svc_verifier_verdicts_total":             "there is a verdict",
	"svc_verifier_observations_total":         "a probe has been judged",
	"svc_verifier_probes_total":               "a probe has ended",
}

// unseenLabels are labels that only a fault gives a metric.
var unseenLabels = map[string]string{
	"error_type": "a call fails", "problem": "a delivery fails", "reason": "a probe is not asked",
}

// leftOut are metrics, or their beginnings, that no dashboard, alert or objective shows, with
// the reason.
var leftOut = map[string]string{
	"go_":       "the runtime's own; the dashboards show heap and goroutines",
	"process_":  "the process's own; the dashboards show processor, memory and files",
	"promhttp_": "of the handler of /metrics itself",
	"scrape_":   "Prometheus's own",
	"up":        "Prometheus's own, and shown",
	"ALERTS":    "Prometheus's own",
	"slo:":      "records; the dashboards show two windows of seven",
	"target_":   "names the program; job and instance say the same",
}

// known returns the reason that a table has for a metric, by its name or its beginning.
func known(table map[string]string, name string) bool {
	for prefix := range table {
		if name == prefix || strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// market is a fleet under load that a Prometheus watches.
func market(t *testing.T, options ...func(*fleet.Config)) (*trial.Market, *server, *trial.Load) {
	t.Helper()
	m := trial.StartFleet(t, append([]func(*fleet.Config){func(c *fleet.Config) {
		c.Replicas[fleet.Agent], c.Replicas[fleet.Engine], c.References = 3, 1, 1
		c.Settings = map[string]map[string]any{fleet.Billing: {"billing": map[string]any{"reconcile_interval": "2s"}}}
	}}, options...)...)
	s := startPrometheus(t, m.Fleet())
	load := m.StartLoad(t, m.Key(), m.Model(), 2)
	if status, _, _ := m.Call(t, http.MethodPost, trial.ChatPath, m.Key(), trial.Chat("test/none", "")); status !=
		http.StatusNotFound {
		t.Errorf("a model that does not exist: got %d, want 404", status)
	}
	return m, s, load
}

func TestWhatOperatorsWatchIsThere(t *testing.T) {
	chains, pays := onChains(t)
	m, s, load := market(t, pays, fewConnections)
	trial.Until(t, "two hundred requests are answered", func() bool { return load.Answered() >= 200 })
	trial.Until(t, "usage is settled and the ledger compared", func() bool {
		return len(s.query(t, `increase(svc_billing_comparisons_total[1m]) > 0`)) > 0 &&
			len(s.query(t, `svc_billing_charged_nano_usd_total > 0`)) > 0 &&
			len(s.query(t, `slo:settlement_late:ratio_avg5m`)) > 0
	})
	t.Run("no alert fires but that of the standby", func(t *testing.T) { calm(t, s) })
	lively(t, inTown(t, m, chains), s)
	t.Run("each metric and label is exposed", func(t *testing.T) { exposed(t, s) })
	t.Run("each metric is shown or left out", func(t *testing.T) { shown(t, s) })
	t.Run("each panel has data", func(t *testing.T) { haveData(t, s) })
}

func exposed(t *testing.T, s *server) {
	series := map[string][]map[string]string{}
	for _, e := range slices.Concat(panels(t), rules(t)) {
		labels, seen := map[string]bool{}, true
		names := e.metrics()
		if len(names) == 0 {
			t.Errorf("%s: got no metric in %q, want one", e.where, e.text)
		}
		for _, name := range names {
			if _, asked := series[name]; !asked {
				series[name] = s.series(t, name)
			}
			if len(series[name]) == 0 {
				seen = false
				if !known(unseen, name) {
					t.Errorf("%s: got no series of %s, want one", e.where, name)
				}
			}
			for _, one := range series[name] {
				for label := range one {
					labels[label] = true
				}
			}
		}
		for _, label := range e.labels() {
			if seen && !labels[label] && !known(unseenLabels, label) {
				t.Errorf("%s: got no label %s on any of %v, want one", e.where, label, names)
			}
		}
	}
}

func shown(t *testing.T, s *server) {
	watched := map[string]bool{}
	for _, e := range slices.Concat(panels(t), rules(t)) {
		for _, name := range e.metrics() {
			watched[groups.ReplaceAllString(name, "")] = true
		}
	}
	var names []string
	s.ask(t, "label/__name__/values", nil, &names)
	if len(names) < 100 {
		t.Fatalf("metrics: got %d, want at least 100", len(names))
	}
	for _, name := range names {
		if !watched[groups.ReplaceAllString(name, "")] && !watched[name] && !known(leftOut, name) {
			t.Errorf("%s: got it in no dashboard, alert or objective, and not in leftOut; want it in one", name)
		}
	}
}

func haveData(t *testing.T, s *server) {
	empty := 0
	for _, e := range panels(t) {
		if len(s.query(t, e.text)) > 0 {
			continue
		}
		empty++
		away := e.mayBeEmpty
		for _, name := range e.metrics() {
			away = away || known(unseen, name)
		}
		if !away {
			t.Errorf("%s: got no data for %s, want some", e.where, e.text)
		}
	}
	t.Logf("%d of %d queries have no data, each with its reason", empty, len(panels(t)))
}

// calm holds that a sound fleet fires nothing. It has no standby, and no chain prices.
func calm(t *testing.T, s *server) {
	for _, a := range s.query(t, `ALERTS{alertstate="firing"}`) {
		if name := a.Metric["alertname"]; name != "LedgerWithoutSynchronousStandby" {
			t.Errorf("%s: got it firing (%v), want it quiet", name, a.Metric)
		}
	}
}
