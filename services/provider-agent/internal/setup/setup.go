// Package setup is the wizard that turns a machine with an engine into a provider: it
// finds the engines, matches their models to the catalog, opens the account, and writes
// the files that the agent reads.
//
// It asks at most six things: the service's address, the models, the address that is
// paid, the machine's name, the capacity, and the account. It does not ask for what Options
// say, and with Yes it asks nothing. Piped lines answer as typed lines do. The account comes
// last, because the session of a user ends after 15 minutes: all that needs the session is
// then done at once.
//
// A second run shows what is there and changes only what is said.
package setup

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"svc.internal/pkg/ethereum"
	"svc.internal/services/provider-agent/internal/doctor"
	"svc.internal/services/provider-agent/internal/engine"
	"svc.internal/services/provider-agent/internal/offer"
	"svc.internal/services/provider-agent/internal/service"
)

// Run asks what is missing and sets the machine up.
func Run(ctx context.Context, o Options, t Terminal) error {
	w := &wizard{Options: o, ask: newPrompt(t, o.Yes)}
	for _, step := range []func(context.Context) error{
		w.service, w.models, w.beneficiary, w.machine, w.account, w.finish,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// service asks for the address of the marketplace, and for its catalog there.
func (w *wizard) service(ctx context.Context) error {
	check := func(address string) error {
		client, err := service.New(address)
		if err != nil {
			return err
		}
		if client.Exposed() && !w.AllowPlaintext {
			return errors.New("over http:// the password and the key travel in the clear: use https://, or set " +
				"SVC_ALLOW_PLAINTEXT=true where the network is your own")
		}
		told, err := client.AllModels(ctx)
		if err != nil {
			return err
		}
		w.client, w.told = client, told
		return nil
	}
	var err error
	w.ServiceURL, err = w.ask.text("The marketplace's address, https://…", w.ServiceURL, "-service", check)
	if err != nil {
		return err
	}
	if w.HubURL == "" {
		w.HubURL = hubOf(w.ServiceURL)
	}
	return nil
}

// hubOf is the usual address of a service's hub.
func hubOf(serviceURL string) string {
	return "ws" + strings.TrimPrefix(strings.TrimRight(serviceURL, "/"), "http") + "/ws"
}

// models finds the engines and asks which models to offer.
func (w *wizard) models(ctx context.Context) error {
	found := engine.Find(ctx, w.Ports)
	if w.Pull != "" {
		if err := w.pull(ctx, found); err != nil {
			return err
		}
		found = engine.Find(ctx, w.Ports)
	}
	demand, err := w.client.Demand(ctx)
	if err != nil {
		w.ask.say("The demand is not known: %v", err)
	}
	options := optionsOf(found, w.told, w.Context)
	w.showEngines(found)
	showDemand(w.ask, demand, options)
	showOptions(w.ask, options)
	kept, err := readModels(w.modelsPath())
	if err != nil {
		return err
	}
	preset, standard := w.Offer, "all"
	if kept != nil {
		showKept(w.ask, w.modelsPath(), kept)
		standard = "keep"
	}
	check := func(answer string) (err error) {
		if answer == "keep" && kept != nil {
			w.chosen = nil
			return nil
		}
		w.chosen, err = choose(answer, options, w.told)
		return err
	}
	if preset == "" && w.Yes {
		preset = standard
	}
	_, err = w.ask.choice("Models to offer: numbers, id=local name, or all", preset, standard, "-offer", check)
	return err
}

// pull has the first Ollama download a model.
func (w *wizard) pull(ctx context.Context, found []engine.Found) error {
	for _, f := range found {
		if !f.IsOllama() {
			continue
		}
		if f.Has(w.Pull) {
			w.ask.say("%s is here already.", w.Pull)
			return nil
		}
		last := ""
		return engine.Pull(ctx, f.URL, w.Pull, func(step string, done, total int64) {
			line := service.Clean(step, maxCell)
			if total > 0 {
				line = fmt.Sprintf("%s %d %%", line, 100*min(done, total)/total)
			}
			if line != last {
				last = line
				w.ask.say("  %s", line)
			}
		})
	}
	return errors.New("no Ollama was found that could download the model: start Ollama, or download the model by hand")
}

// beneficiary asks for the address that is paid.
func (w *wizard) beneficiary(context.Context) error {
	check := func(text string) error {
		if text == "" {
			return nil
		}
		address, err := ethereum.ParseAddress(text)
		if err != nil {
			return err
		}
		if address.IsZero() {
			return errors.New("this is the zero address, which nobody holds")
		}
		w.Beneficiary = address.String()
		if text != w.Beneficiary {
			w.ask.say("  The address has no checksum (capital letters), so a typing error is not noticed. "+
				"Compare it: %s", w.Beneficiary)
		}
		return nil
	}
	_, err := w.ask.choice("The wallet address that is paid, 0x… (empty: later)", w.Beneficiary, "", "-beneficiary",
		check)
	return err
}

// machine asks for the machine's name and capacity.
func (w *wizard) machine(context.Context) error {
	var err error
	w.NodeName, err = w.ask.choice("This machine's name", preset(w.Yes, w.NodeName), w.NodeName, "-name",
		func(name string) error {
			if len(name) > 64 {
				return errors.New("a name has at most 64 characters")
			}
			return nil
		})
	if err != nil || len(w.chosen) == 0 {
		return err
	}
	given := ""
	if w.Capacity > 0 {
		given = fmt.Sprint(w.Capacity)
	}
	_, err = w.ask.choice("Requests at once for each model", given, fmt.Sprint(offer.DefaultCapacity), "-capacity",
		func(text string) error {
			var n int
			if _, err := fmt.Sscanf(text, "%d", &n); err != nil || fmt.Sprint(n) != text || n < 1 || n > offer.MaxCapacity {
				return fmt.Errorf("give a number from 1 to %d", offer.MaxCapacity)
			}
			w.Capacity = n
			return nil
		})
	return err
}

// preset is the answer where nothing is asked, and empty where it is asked for.
func preset(is bool, answer string) string {
	if is {
		return answer
	}
	return ""
}

// finish makes the models that were chosen, writes the files, and says what comes next.
func (w *wizard) finish(ctx context.Context) error {
	for i := range w.chosen {
		if err := w.widen(ctx, &w.chosen[i]); err != nil {
			return err
		}
	}
	if err := w.write(); err != nil {
		return err
	}
	w.ask.say("")
	w.reach(ctx)
	w.blocked(ctx)
	w.ask.say("Next: svc-agent run")
	return nil
}

// reach tells the owner if no hub answers at the hub's address, which may have been derived from the
// API's.
func (w *wizard) reach(ctx context.Context) {
	address := strings.TrimRight(w.HubURL, "/")
	if !strings.HasSuffix(address, "/ws") {
		address += "/ws"
	}
	if found := doctor.Reach(ctx, address); found.Level == doctor.Blocks {
		w.ask.say("The hub at %s: %s.", w.HubURL, found.Text)
		w.ask.say("  The hub's host or port may differ from the API's: svc-agent setup -ws names it. Else: %s.", found.Fix)
	}
}

// widen makes the model of an option with a larger window than the engine gives by itself.
func (w *wizard) widen(ctx context.Context, o *option) error {
	if o.window == 0 {
		return nil
	}
	name := widened(o.local, o.window)
	if err := engine.Widen(ctx, o.engine.URL, o.local, name, o.window); err != nil {
		return fmt.Errorf("make %s: %w", name, err)
	}
	w.ask.say("Made %s, which is %s with a window of %d tokens.", name, o.local, o.window)
	o.local = name
	return nil
}

// blocked says what blocks earning now.
func (w *wizard) blocked(ctx context.Context) {
	answer, err := w.client.Status(ctx, w.Key)
	if err != nil {
		w.ask.say("The status of the account is not known: %v", err)
		return
	}
	status, err := service.ParseStatus(answer)
	if err != nil {
		w.ask.say("The status of the account is not known: %v", err)
		return
	}
	label := status.Label
	if label == "" {
		label = status.Status
	}
	w.ask.say("The account: %s", service.Clean(label, maxCell))
	if status.EarningsEnabled {
		w.ask.say("Nothing blocks earning.")
		return
	}
	w.ask.say("What blocks earning now:")
	for i, step := range status.NextSteps {
		if i == maxSteps {
			break
		}
		w.ask.say("  - %s", service.Clean(step, maxLine))
	}
}
