package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"svc.internal/services/provider-agent/internal/service"
)

// maxCell bounds a cell and maxRows a table, because the service's answer may be longer
// than a terminal can show.
const (
	maxCell = 200
	maxRows = 256
	// maxSentences bounds a text that has two of its own names beside its words.
	maxSentences = 1000
)

// sheet is the printed text. Colour codes would widen a column, so only the last cell of
// a row is coloured.
type sheet struct {
	table *tabwriter.Writer
	paint paint
}

func (s sheet) row(cells ...string) {
	fmt.Fprintln(s.table, strings.Join(cells, "\t"))
}

// title prints the title of a table. A line without cells ends the columns before it.
func (s sheet) title(text string) {
	fmt.Fprintln(s.table, "\n"+s.paint(text, bold))
}

// writeStatus prints where an account stands.
func writeStatus(out io.Writer, told service.Status, paint paint) error {
	s := sheet{table: tabwriter.NewWriter(out, 0, 0, 2, ' ', 0), paint: paint}
	s.account(told)
	s.nodes(told.Nodes)
	s.answeredAs(told.AnsweredAs)
	s.traffic(told)
	if err := s.table.Flush(); err != nil {
		return fmt.Errorf("print the status: %w", err)
	}
	return nil
}

func (s sheet) account(told service.Status) {
	label := told.Label
	if label == "" {
		label = told.Status
	}
	s.row("provider", cell(told.Name)+" "+cell(told.ProviderID))
	s.row("status", s.paint(cell(label), colourOf(told.Status)))
	if told.TotalSteps > 0 {
		s.row("step", fmt.Sprintf("%d of %d  %s", told.Step, told.TotalSteps, cell(told.StepLabel)))
	}
	if told.Message != "" {
		s.row("meaning", cell(told.Message))
	}
	if !told.CanConnect {
		s.row("connection", s.paint("refused", red))
	} else {
		s.row("connection", yes(told.Online, "a machine is connected", "no machine is connected"))
	}
	s.row("earning", yes(told.EarningsEnabled, "yes", "not yet"))
	s.row("uptime", percent(told.Uptime24h)+" of 24 h, "+percent(told.Uptime30d)+" of 30 days")
	if told.ProbationEndsAt != nil && told.Label != told.Status && strings.Contains(told.Label, "Probation") {
		s.row("probation", "until "+moment(told.ProbationEndsAt)+countdown(time.Until(*told.ProbationEndsAt)))
	}
	if told.BenchmarkExpiresAt != nil {
		s.row("benchmark", "good until "+moment(told.BenchmarkExpiresAt))
	}
	for i, step := range told.NextSteps {
		if i == maxRows {
			break
		}
		s.row("next", cell(step))
	}
	if told.Warning != "" {
		s.row("warning", s.paint(cell(told.Warning), yellow))
	}
}

func (s sheet) nodes(nodes []service.Node) {
	if len(nodes) == 0 {
		return
	}
	s.title("Machines")
	s.row("NODE", "NAME", "AGENT", "ENGINE", "GPU", "VRAM", "LAST SEEN", "STATE")
	for _, n := range nodes[:min(len(nodes), maxRows)] {
		gpu := cell(n.GPUModel)
		if n.GPUCount > 1 {
			gpu = strconv.Itoa(n.GPUCount) + " x " + gpu
		}
		vram := "-"
		if n.VRAMGB > 0 {
			vram = strconv.Itoa(n.VRAMGB) + " GB"
		}
		state, c := "online", green
		switch {
		case !n.Online:
			state, c = "offline", yellow
		case !n.GPUEligible:
			state, c = "online, GPU not eligible", yellow
		}
		s.row(dash(n.NodeID), dash(n.NodeName), dash(n.AgentVersion), dash(n.Engine), dash(gpu), vram, moment(n.LastSeenAt),
			s.paint(state, c))
	}
}

// answeredAs prints which models engines called by another name.
func (s sheet) answeredAs(all []service.AnsweredAs) {
	if len(all) == 0 {
		return
	}
	s.title("Models that engines call by another name")
	for _, n := range all[:min(len(all), maxRows)] {
		s.row(service.Clean(n.Meaning, maxSentences))
	}
}

// traffic prints why requests come or do not.
func (s sheet) traffic(told service.Status) {
	t := told.Traffic
	if t == nil {
		s.title("Requests")
		s.row("no router could be asked why requests come or do not; try again")
		return
	}
	s.title("Requests since " + moment(t.Since))
	if len(t.Models) == 0 {
		s.row("no model is offered: no machine is connected, or the models are not in the catalog")
	} else {
		s.row("MODEL", "MACHINES", "AVAILABLE", "IN FLIGHT", "CAPACITY", "CHOSEN", "LANE", "BREAKER")
	}
	for _, m := range t.Models[:min(len(t.Models), maxRows)] {
		c := green
		if m.Breaker != "closed" {
			c = red
		}
		s.row(dash(m.ModelID), strconv.Itoa(m.Nodes), strconv.Itoa(m.AvailableNodes), strconv.Itoa(m.InFlight),
			strconv.Itoa(m.Capacity), strconv.FormatInt(m.Chosen, 10), dash(m.Lane), s.paint(dash(m.Breaker), c))
	}
	s.verification(t.Models)
	s.title("Why requests went elsewhere")
	if len(t.Rejects) == 0 {
		s.row("never passed over; where few requests come, demand is what is missing")
		return
	}
	s.row("TIMES", "REASON", "MEANING")
	for _, r := range t.Rejects[:min(len(t.Rejects), maxRows)] {
		s.row(strconv.FormatInt(r.Count, 10), dash(r.Reason), dash(r.Meaning))
	}
}

// verification prints what the verifier makes of models where that changes anything.
func (s sheet) verification(models []service.ModelHealth) {
	titled := false
	for _, m := range models[:min(len(models), maxRows)] {
		if m.Verification == "" {
			continue
		}
		if !titled {
			s.title("What verification found")
			titled = true
		}
		s.row(dash(m.ModelID), service.Clean(m.Verification, maxSentences))
	}
}

func colourOf(status string) colour {
	switch status {
	case "active":
		return green
	case "suspended", "rejected":
		return red
	default:
		return yellow
	}
}

func cell(text string) string { return service.Clean(text, maxCell) }

// dash is a cell that is never empty, so that columns stay distinct.
func dash(text string) string {
	if text = cell(text); text == "" {
		return "-"
	}
	return text
}

func yes(is bool, yes, no string) string {
	if is {
		return yes
	}
	return no
}

func percent(part float64) string { return strconv.FormatFloat(100*part, 'f', 1, 64) + " %" }

// countdown is how much is left, for a line that names the end.
func countdown(left time.Duration) string {
	if left < time.Minute {
		return ""
	}
	return ", in " + strings.TrimSuffix(left.Round(time.Minute).String(), "0s")
}

func moment(at *time.Time) string {
	if at == nil {
		return "-"
	}
	return at.UTC().Format("2006-01-02 15:04 UTC")
}
