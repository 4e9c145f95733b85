package setup

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"

	"svc.internal/services/provider-agent/internal/engine"
	"svc.internal/services/provider-agent/internal/offer"
	"svc.internal/services/provider-agent/internal/service"
)

// optionsOf are the models that were found, in the order of the engines. A model of
// Ollama's that holds fewer tokens than it could comes a second time, with the window of
// the catalog. An owner who chooses the second consents to the model that is made then. With
// wide, consent was given: every model of Ollama's that holds less comes once, with the window
// wide.
func optionsOf(found []engine.Found, catalog []service.CatalogModel, wide int64) []option {
	var all []option
	for _, f := range found {
		for _, m := range f.Models {
			o := option{engine: f, local: m.Name, holds: m.Window}
			entry, known := match(m.Name, catalog)
			if known {
				o.id = entry.ID
			}
			larger := entry.ContextLength
			if wide > 0 {
				larger = wide
			}
			if m.Trained > 0 {
				larger = min(larger, m.Trained)
			}
			if known && f.IsOllama() && m.Window > 0 && larger > m.Window {
				widened := o
				widened.window = larger
				if wide > 0 {
					o = widened
				} else {
					all = append(all, o)
					o = widened
				}
			}
			all = append(all, o)
		}
	}
	return all
}

// widened is the name of a model with another window.
func widened(local string, window int64) string {
	name, tag, ok := strings.Cut(local, ":")
	if !ok {
		tag = "latest"
	}
	return name + ":" + tag + "-ctx" + strconv.FormatInt(window, 10)
}

// match finds the model of the catalog that has a local name. Where two models match equally
// well, neither does, because a model that is sold as another is fraud.
func match(local string, catalog []service.CatalogModel) (service.CatalogModel, bool) {
	var best service.CatalogModel
	score, twice := 0, false
	for _, m := range catalog {
		if !m.Offerable() {
			continue
		}
		for _, name := range []string{m.ID, m.Slug, m.Name} {
			switch s := likeness(local, name); {
			case s > score:
				best, score, twice = m, s, false
			case s == score && s > 0 && m.ID != best.ID:
				twice = true
			}
		}
	}
	return best, score > 0 && !twice
}

// likeness says how surely two names are of one model; 0 is not at all.
func likeness(local, name string) int {
	local = strings.TrimSuffix(local, ":latest")
	switch {
	case name == "":
		return 0
	case local == name:
		return 4
	case letters(local) == letters(name):
		return 3
	case letters(last(local)) == letters(last(name)):
		return 2
	case letters(bare(last(local))) == letters(bare(last(name))):
		return 1
	}
	return 0
}

// last is a name without its owner.
func last(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }

// bare is a name without the words that say how a model was packed or trained to talk.
func bare(name string) string {
	name = strings.ToLower(strings.ReplaceAll(name, ":", "-"))
	for {
		cut := name
		for _, word := range []string{"instruct", "chat", "it", "hf", "gguf", "fp16", "bf16", "fp8", "awq", "gptq", "int4",
			"int8", "q4_0", "q4_k_m", "q5_k_m", "q6_k", "q8_0"} {
			cut = strings.TrimSuffix(cut, "-"+word)
		}
		if cut == name {
			return name
		}
		name = cut
	}
}

// letters are the letters and digits of a name, in lower case.
func letters(name string) string {
	return strings.Map(func(r rune) rune {
		if '0' <= r && r <= '9' || 'a' <= r && r <= 'z' {
			return r
		}
		return -1
	}, strings.ToLower(name))
}

// choose reads an answer: all, or a list of numbers and of id=local name.
func choose(answer string, options []option, catalog []service.CatalogModel) ([]option, error) {
	var chosen []option
	seen := map[string]bool{}
	add := func(o option) error {
		if !inCatalog(o.id, catalog) {
			return fmt.Errorf("%q is not a model of the catalog that providers serve", service.Clean(o.id, maxCell))
		}
		if seen[o.id] {
			return fmt.Errorf("%s is chosen twice", o.id)
		}
		seen[o.id] = true
		chosen = append(chosen, o)
		return nil
	}
	if strings.EqualFold(answer, "all") {
		for i, o := range options {
			if o.id != "" && !seen[o.id] && (o.window == 0 || i == 0 || options[i-1].local != o.local) {
				if err := add(o); err != nil {
					return nil, err
				}
			}
		}
		if len(chosen) == 0 {
			return nil, errors.New("no engine on this machine has a model of the catalog: start one, or give id=local name")
		}
		return chosen, nil
	}
	for part := range strings.SplitSeq(answer, ",") {
		o, err := one(strings.TrimSpace(part), options)
		if err != nil {
			return nil, err
		}
		if err := add(o); err != nil {
			return nil, err
		}
	}
	return chosen, nil
}

// one reads a number or id=local name.
func one(part string, options []option) (option, error) {
	if n, err := strconv.Atoi(part); err == nil {
		if n < 1 || n > len(options) {
			return option{}, fmt.Errorf("there is no number %d", n)
		}
		if o := options[n-1]; o.id != "" {
			return o, nil
		}
		return option{}, fmt.Errorf("number %d has no model of the catalog: say which with id=%s", n, options[n-1].local)
	}
	id, local, ok := strings.Cut(part, "=")
	if !ok {
		return option{}, fmt.Errorf("%q is neither a number nor id=local name", service.Clean(part, maxCell))
	}
	for _, o := range options {
		if strings.TrimSuffix(o.local, ":latest") == strings.TrimSuffix(local, ":latest") {
			o.id = id
			return o, nil
		}
	}
	return option{}, fmt.Errorf("no engine here has %q", service.Clean(local, maxCell))
}

func inCatalog(id string, catalog []service.CatalogModel) bool {
	for _, m := range catalog {
		if m.ID == id && m.Offerable() {
			return true
		}
	}
	return false
}

func (w *wizard) showEngines(found []engine.Found) {
	if len(found) == 0 {
		w.ask.say("No engine answers on the ports %v of this machine: start one, or name its port with -ports.", w.Ports)
	}
	for _, f := range found {
		if f.Locked {
			w.ask.say("The engine at %s asks for a key: write its models into models.json yourself, with api_key.", f.URL)
			continue
		}
		w.ask.say("Found %s at %s with %d models.", f.Kind, f.URL, len(f.Models))
	}
}

func showOptions(p prompt, options []option) {
	table := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\n\tHERE\tIN THE CATALOG\tENGINE\tTOKENS")
	for i, o := range options[:min(len(options), offer.MaxModels)] {
		id, tokens := o.id, "the engine does not say"
		if id == "" {
			id = "no model of this name"
		}
		if o.holds > 0 {
			tokens = strconv.FormatInt(o.holds, 10)
		}
		if o.window > 0 {
			tokens = fmt.Sprintf("%d, as a new model that is made of it; needs more memory", o.window)
		}
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%s\n", i+1, service.Clean(o.local, maxCell), service.Clean(id, maxCell),
			o.engine.Kind, tokens)
	}
	_ = table.Flush() // the next line fails as well
}

// showDemand shows the demand for what is here, and for the models with the most demand.
func showDemand(p prompt, demand []service.Demand, options []option) {
	here := map[string]bool{}
	for _, o := range options {
		here[o.id] = true
	}
	table := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\nDEMAND FOR\tREQUESTS 24 H\tPROVIDERS\tUSD/M IN\tUSD/M OUT\tUSD A DAY, ABOUT\tVRAM\tHERE")
	for i, d := range demand {
		if i >= maxRows && !here[d.ModelID] {
			continue
		}
		vram, is := "-", "no"
		if d.MinVRAMGB > 0 {
			vram = fmt.Sprintf("%d GB", d.MinVRAMGB)
		}
		if here[d.ModelID] {
			is = "yes"
		}
		fmt.Fprintf(table, "%s\t%d\t%d\t%g\t%g\t%.2f\t%s\t%s\n", service.Clean(d.ModelID, maxCell), d.Requests24h,
			d.OnlineProviders, d.InputPrice, d.OutputPrice, d.EstDailyEarnings, vram, is)
	}
	_ = table.Flush()
	p.say("To get a model that is not here, run ollama pull, or svc-agent setup -pull with Ollama's name of the model.")
}

func showKept(p prompt, path string, kept []offer.Model) {
	p.say("\n%s offers now:", path)
	for _, m := range kept {
		p.say("  %s: %s at %s", m.ModelID, service.Clean(m.LocalModel, maxCell), m.EngineURL)
	}
}
