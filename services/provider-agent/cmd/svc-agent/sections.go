package main

import (
	"fmt"
	"io"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"svc.internal/services/provider-agent/internal/control"
	"svc.internal/services/provider-agent/internal/service"
)

// maxAmount bounds an amount, in bytes.
const maxAmount = 40

// shownFailures is how many failures are printed.
const shownFailures = 5

// writePicture prints what the agent knows, and then what the marketplace knows.
func writePicture(out io.Writer, p picture, paint paint) error {
	s := sheet{table: tabwriter.NewWriter(out, 0, 0, 2, ' ', 0), paint: paint}
	s.agent(p)
	if err := s.table.Flush(); err != nil {
		return fmt.Errorf("print the status: %w", err)
	}
	if p.status == nil {
		if p.AccountFault == "" {
			return nil
		}
		_, err := fmt.Fprintln(out, "\naccount  not known: "+paint(service.Clean(p.AccountFault, maxSentences), yellow))
		return err
	}
	fmt.Fprintln(out)
	if err := writeStatus(out, *p.status, paint); err != nil {
		return err
	}
	s = sheet{table: tabwriter.NewWriter(out, 0, 0, 2, ' ', 0), paint: paint}
	s.earned(p)
	s.benchmarks(p)
	s.verifications(p)
	if err := s.table.Flush(); err != nil {
		return fmt.Errorf("print the status: %w", err)
	}
	return nil
}

// agent prints what the agent on this machine knows.
func (s sheet) agent(p picture) {
	a := p.Agent
	if a == nil {
		s.row("agent", s.paint(service.Clean(p.AgentFault, maxSentences), yellow))
		return
	}
	state, c := a.Connection, green
	switch {
	case a.Connection == control.Connecting:
		state, c = "not connected: "+a.Fault, red
	case a.Paused:
		state, c = a.Connection+", paused: svc-agent resume takes requests again", yellow
	case a.Connection == control.Draining:
		c = yellow
	}
	s.row("agent", s.paint(cell(state), c))
	s.row("hub", cell(a.Hub))
	if a.ConnectedSince != nil {
		s.row("connected", "since "+moment(a.ConnectedSince)+", "+percent(a.Uptime)+" of the time since the start")
	}
	s.row("requests", fmt.Sprintf("%d under way, %d served, %d failed, %d cancelled since %s", a.Requests.UnderWay,
		a.Requests.Served, a.Requests.Failed, a.Requests.Cancelled, moment(&a.StartedAt)))
	if a.Account.Machines > 1 {
		s.row("machines", s.paint(strconv.Itoa(a.Account.Machines)+" are connected with this account; if one is not yours, "+
			"somebody has your key", yellow))
	}
	if a.Account.Warning != "" {
		s.row("warning", s.paint(cell(a.Account.Warning), yellow))
	}
	if a.ModelsFault != "" {
		s.row("models", s.paint("models.json has a fault, and the models stay as they were: "+
			service.Clean(strings.ReplaceAll(a.ModelsFault, "\n", " "), maxSentences), red))
	}
	if n := a.Receipts.Waiting; n > 0 {
		s.row("receipts", strconv.Itoa(n)+" wait to be acknowledged")
	}
	s.engines(a.Models)
	s.failures(a.Failures)
}

// engines prints the models of this machine.
func (s sheet) engines(models []control.Model) {
	if len(models) == 0 {
		return
	}
	s.title("Models here")
	s.row("MODEL", "ENGINE", "CONTEXT", "UNDER WAY", "SERVED", "FAILED", "STATE")
	for _, m := range models[:min(len(models), maxRows)] {
		state, c := "healthy", green
		switch {
		case m.Refused != "":
			state, c = "refused: "+m.Refused, red
		case !m.Healthy:
			state, c = m.Reason, red
		}
		window := "-"
		if m.ContextLength > 0 {
			window = strconv.FormatInt(m.ContextLength, 10)
		}
		s.row(dash(m.ModelID), dash(m.Engine), window, strconv.Itoa(m.UnderWay), strconv.FormatInt(m.Served, 10),
			strconv.FormatInt(m.Failed, 10), s.paint(dash(state), c))
	}
}

// failures prints the last failures.
func (s sheet) failures(all []control.Failure) {
	if len(all) == 0 {
		return
	}
	s.title("Last failures")
	for _, f := range all[:min(len(all), shownFailures)] {
		s.row(f.At.UTC().Format(time.TimeOnly), dash(f.ModelID), dash(f.RequestID), dash(f.Reason))
	}
}

// earned prints where the earnings stand, and what the statements of the last days say.
func (s sheet) earned(p picture) {
	e := p.earnings
	if e == nil {
		return
	}
	s.title("Earnings in $")
	s.row("SETTLED", "HELD", "SETTLEMENT PENDING", "PAYABLE", "IN FLIGHT", "PAID", "CONVERTED")
	s.row(dash(e.Settled), dash(e.Held), dash(e.Pending), dash(e.Payable), dash(e.InFlight), dash(e.Paid),
		dash(e.Converted))
	if e.Blocked {
		s.row(s.paint("nothing is batched until an operator has cleared a difference", yellow))
	}
	if p.account != nil && p.account.Payout != nil {
		s.row("payout", cell(p.account.Payout.Net)+" is "+cell(p.account.Payout.State))
	}
	if s.periods(e) {
		return
	}
	through := cell(e.BatchedThrough)
	if through == "" {
		s.row("no day is batched yet: what was earned today is under SETTLED")
		return
	}
	s.title("Earned by statements, through " + through)
	s.row("LAST DAY", "7 DAYS", "30 DAYS")
	s.row(sumOf(p.statements, through, 1), sumOf(p.statements, through, 7), sumOf(p.statements, through, 30))
}

// periods prints what was earned today, and in the last 7 and 30 days. It reports whether the service
// gives these figures.
func (s sheet) periods(e *service.Earnings) bool {
	told := false
	for _, p := range []struct {
		name string
		of   *service.Period
	}{{"today", e.Today}, {"7 days", e.Last7}, {"30 days", e.Last30}} {
		if p.of == nil {
			continue
		}
		if !told {
			s.title("Earned in $, by UTC days")
			s.row("PERIOD", "SINCE", "EARNED", "NOT BATCHED YET", "SETTLED", "HELD", "SETTLEMENT PENDING")
			told = true
		}
		s.row(p.name, dash(p.of.Since), dash(p.of.Earned), dash(p.of.Unbatched), dash(p.of.Settled), dash(p.of.Held),
			dash(p.of.Pending))
	}
	return told
}

// shownVerifications bounds the verifications that are printed.
const shownVerifications = 5

// verifications prints the last verifications, the newest first.
func (s sheet) verifications(p picture) {
	all := slices.Concat(p.challenges, p.probes)
	all = slices.DeleteFunc(all, func(v service.Verification) bool { return v.At == nil })
	if len(all) == 0 {
		return
	}
	slices.SortStableFunc(all, func(a, b service.Verification) int { return b.At.Compare(*a.At) })
	s.title("Last verifications")
	s.row("KIND", "MODEL", "AT", "RESULT")
	for _, v := range all[:min(len(all), shownVerifications)] {
		at := moment(v.At)
		if v.Flow == "hidden" { // of hidden probes the service tells only the day
			at = v.At.UTC().Format(time.DateOnly)
		}
		c := green
		switch v.Result {
		case "void":
			c = yellow
		case "differs":
			c = red
		}
		s.row(dash(strings.TrimSpace(v.Flow+" "+v.Kind)), dash(v.ModelID), at, s.paint(dash(v.Result), c))
	}
}

// sumOf adds the statements of the days that end with a day.
func sumOf(all []service.Statement, through string, days int) string {
	end, err := time.Parse(time.DateOnly, through)
	if err != nil {
		return "-"
	}
	first := end.AddDate(0, 0, 1-days).Format(time.DateOnly)
	sum := new(big.Rat)
	for _, st := range all {
		if len(st.Amount) > maxAmount || strings.ContainsAny(st.Amount, "eEpPxX/_") {
			continue // an exponent could make a number that fills the memory
		}
		if amount, ok := new(big.Rat).SetString(st.Amount); ok && st.Day >= first && st.Day <= through {
			sum.Add(sum, amount)
		}
	}
	return strings.TrimSuffix(strings.TrimRight(sum.FloatString(9), "0"), ".")
}

// benchmarks prints how each model stands with the verifier.
func (s sheet) benchmarks(p picture) {
	if p.account == nil || p.account.Models == nil || len(*p.account.Models) == 0 {
		return
	}
	s.title("Benchmarks and trust")
	s.row("MODEL", "BENCHMARK", "TRUST", "LANE", "CONTEXT", "NEXT")
	for _, m := range (*p.account.Models)[:min(len(*p.account.Models), maxRows)] {
		s.row(dash(m.ModelID), benchmarkOf(m), dash(m.Trust), dash(m.Lane), strconv.FormatInt(m.ContextLength, 10),
			dash(m.NextStep))
	}
}
