package main

import (
	"fmt"
	"slices"
	"strings"
)

// dashboard is one file.
type dashboard struct {
	name, title string
	rows        []row
}

// row is a heading with its panels.
type row struct {
	title  string
	panels []panel
}

// panel is a graph. Its units are Grafana's.
type panel struct {
	title, unit string
	queries     []query
	// warn, unless it is 0, is where the graph becomes red.
	warn float64
	// note says what is not in title and queries.
	note string
}

type query struct{ expr, legend string }

// interval stands for the window of a rate.
const interval = "$__rate_interval"

// graph is a panel of one query.
func graph(title, unit, expr, legend string) panel {
	return panel{title: title, unit: unit, queries: []query{{expr, legend}}}
}

// limit is a graph with the bound at which an alert looks.
func limit(title, unit string, warn float64, expr, legend string) panel {
	p := graph(title, unit, expr, legend)
	p.warn = warn
	return p
}

// also adds a query to a panel.
func (p panel) also(expr, legend string) panel {
	p.queries = append(p.queries, query{expr, legend})
	return p
}

// noted adds what the description says.
func (p panel) noted(note string) panel {
	p.note = note
	return p
}

// rate is a counter's rate by labels; by may be empty.
func rate(title, unit, counter, by string) panel {
	expr := fmt.Sprintf("sum(rate(%s[%s]))", counter, interval)
	legend := title
	if by != "" {
		expr = fmt.Sprintf("sum by (%s) (rate(%s[%s]))", by, counter, interval)
		legend = "{{" + strings.ReplaceAll(by, ", ", "}} {{") + "}}"
	}
	return graph(title, unit, expr, legend)
}

// quantiles are the median, the 95th and the 99th percentile of a histogram with its
// selector, such as x_seconds and {a="b"}.
func quantiles(title, histogram, selector string) panel {
	p := panel{title: title, unit: "s"}
	for _, q := range []string{"0.5", "0.95", "0.99"} {
		p = p.also(fmt.Sprintf("histogram_quantile(%s, sum by (le) (rate(%s_bucket%s[%s])))", q, histogram, selector,
			interval), q)
	}
	return p
}

// group is the job of a pod that has several services: those of grouped.
const group = "standalone"

// grouped are the services that the chart may put into one pod.
var grouped = []string{"router", "provider-hub", "edge-gateway"}

// in selects the processes of a service, wherever it runs, and by further matchers.
func in(job string, matchers ...string) string {
	selected := fmt.Sprintf("job=%q", job)
	if slices.Contains(grouped, job) {
		selected = fmt.Sprintf("job=~%q", job+"|"+group)
	}
	return "{" + strings.Join(append([]string{selected}, matchers...), ",") + "}"
}

// calls is the RED of the gRPC calls that a service answers, by the package of its contracts: the process may have
// other services.
func calls(contracts string) row {
	own := fmt.Sprintf(`rpc_method=~"svc[.]%s[.].*"`, contracts)
	const histogram = "rpc_server_call_duration_seconds"
	return row{"Calls (rate, errors, duration)", []panel{
		rate("Calls", "reqps", fmt.Sprintf("%s_count{%s}", histogram, own), "rpc_method"),
		rate("Calls that failed", "reqps", fmt.Sprintf(`%s_count{%s,error_type!=""}`, histogram, own), "error_type").
			noted("Empty while none fails: a refusal for the caller's own reason is no failure."),
		quantiles("Duration of calls", histogram, "{"+own+"}"),
	}}
}

// rarely says of a service's panels that they are empty where nobody asks it.
func (r row) rarely() row {
	for i := range r.panels {
		if r.panels[i].note == "" {
			r.panels[i].note = "Empty while nobody asks."
		}
	}
	return r
}

// peers is the RED of the gRPC calls that a service makes.
func peers(job string) row {
	const histogram = "rpc_client_call_duration_seconds"
	made := rate("Calls", "reqps", histogram+"_count"+in(job), "rpc_method")
	if slices.Contains(grouped, job) {
		made = made.noted("Of a pod that has several services the calls of all of them.")
	}
	return row{"Calls to other services (rate, errors, duration)", []panel{
		made,
		rate("Calls that failed", "reqps", histogram+"_count"+in(job, `rpc_response_status_code!="OK"`),
			"rpc_response_status_code").
			noted("Empty while all calls are answered. Refusals are among them."),
		quantiles("Duration of calls", histogram, in(job)),
	}}
}

// process is the USE of what every process has.
func process(job string) row {
	selector := in(job)
	by := func(title, unit, format string) panel {
		return graph(title, unit, fmt.Sprintf(format, selector), "{{instance}}")
	}
	return row{"Process (utilization, saturation)", []panel{
		limit("Replicas", "none", 0, fmt.Sprintf("sum(up%s)", selector), "up"),
		by("CPU", "none", "rate(process_cpu_seconds_total%s["+interval+"])").noted("Cores."),
		by("Memory", "bytes", "process_resident_memory_bytes%s"),
		by("Heap", "bytes", "go_memstats_heap_alloc_bytes%s"),
		by("Goroutines", "none", "go_goroutines%s"),
		by("Open files", "percentunit", "process_open_fds%[1]s / process_max_fds%[1]s"),
	}}
}
