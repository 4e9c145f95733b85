package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"

	provideragent "svc.internal/services/provider-agent"
	"svc.internal/services/provider-agent/internal/service"
)

// shownModels is how many models of the catalog are listed unless more are asked for.
const shownModels = 20

// models lists the models that this machine offers, and what the catalog asks for, with prices
// and demand. With the words add and remove it changes models.json.
func models(ctx context.Context, c invocation) error {
	cfg, err := c.settings()
	if err != nil {
		return err
	}
	flags := c.flags("models")
	flags.StringVar(&cfg.Models, "models", cfg.Models, "`file` that lists the models (SVC_MODELS)")
	flags.StringVar(&cfg.ServiceURL, "service", cfg.ServiceURL,
		"`URL` of the marketplace's API, https:// (SVC_SERVICE_URL; default: from the hub's)")
	flags.StringVar(&cfg.WSURL, "ws", cfg.WSURL, "`URL` of the hub, ws:// or wss:// (SVC_WS_URL)")
	flags.StringVar(&cfg.StateDir, "state", cfg.StateDir, "`folder` of the agent's state (SVC_STATE_DIR)")
	all := flags.Bool("all", false, "list the whole catalog")
	unchecked := flags.Bool("unchecked", false, "add a model without asking the catalog for its id")
	operands, err := c.operands(flags)
	if err != nil {
		return err
	}
	switch {
	case len(operands) == 0:
		return listModels(ctx, c, cfg, *all)
	case operands[0] == "add" && (len(operands) == 3 || len(operands) == 4):
		m := provideragent.Model{ModelID: operands[1], EngineURL: operands[2]}
		if len(operands) == 4 {
			m.LocalModel = operands[3]
		}
		return addModel(ctx, c, cfg, m, *unchecked)
	case operands[0] == "remove" && len(operands) == 2:
		return removeModel(ctx, c, cfg, operands[1])
	}
	return errors.New("say svc-agent models, svc-agent models add <id> <endpoint> [local name], " +
		"or svc-agent models remove <id>")
}

// listModels prints the models that this machine offers, and what the catalog asks for.
func listModels(ctx context.Context, c invocation, cfg environment, all bool) error {
	client, err := apiOf(cfg)
	if err != nil {
		return err
	}
	wanted, err := client.Demand(ctx)
	if err != nil {
		return err
	}
	health, listFault := healthOf(ctx, cfg)
	table := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "MODEL\tHERE\tKIND\tINPUT $\tOUTPUT $\tUNIT\tREQUESTS 24 H\tPROVIDERS\tVRAM")
	shown := 0
	for _, w := range wanted {
		state, here := health[w.ModelID]
		delete(health, w.ModelID)
		if !here && !all && shown >= shownModels {
			continue
		}
		shown++
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t%d\t%s\n", dash(w.ModelID), dash(state), dash(w.Category),
			price(w.InputPrice), price(w.OutputPrice), dash(w.PricingUnit), w.Requests24h, w.OnlineProviders,
			gigabytes(w.MinVRAMGB))
	}
	for id, state := range health {
		fmt.Fprintf(table, "%s\t%s\tnot in the catalog: no request will come\n", dash(id), dash(state))
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("print the models: %w", err)
	}
	if left := len(wanted) - shown; left > 0 {
		return c.say("%d more models: svc-agent models --all\n", left)
	}
	if listFault != nil && len(wanted) == 0 {
		return listFault
	}
	return nil
}

// healthOf reports for each model of the list whether its engine serves the model.
func healthOf(ctx context.Context, cfg environment) (map[string]string, error) {
	health := map[string]string{}
	listed, err := provideragent.LoadModels(cfg.Models)
	if err != nil {
		return health, err
	}
	findings, err := provideragent.Check(ctx, listed, provideragent.Deps{})
	for _, f := range findings {
		health[f.Model.ModelID] = "ok"
		if f.Fault != "" {
			health[f.Model.ModelID] = service.Clean(f.Fault, maxCell)
		}
	}
	return health, err
}

func price(dollars float64) string {
	return strings.TrimSuffix(strconv.FormatFloat(dollars, 'f', -1, 64), ".")
}

func gigabytes(n int) string {
	if n == 0 {
		return "-"
	}
	return strconv.Itoa(n) + " GB"
}
