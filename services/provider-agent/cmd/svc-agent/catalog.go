package main

import (
	"context"
	"errors"

	provideragent "svc.internal/services/provider-agent"
	"svc.internal/services/provider-agent/internal/service"
)

// errNoService means that the settings do not say where the catalog is.
var errNoService = errors.New("SVC_SERVICE_URL is not set")

// strangers are the models that the catalog does not have or that providers do not serve,
// with the reason, by model id. Without this check a hub would refuse them, but only once the
// agent is connected.
func strangers(ctx context.Context, cfg environment, models []provideragent.Model) (map[string]string, error) {
	base := cfg.ServiceURL
	if base == "" {
		base = service.BaseOf(cfg.WSURL)
	}
	if base == "" {
		return nil, errNoService
	}
	client, err := service.New(base)
	if err != nil {
		return nil, err
	}
	catalog, err := client.AllModels(ctx)
	if err != nil {
		return nil, err
	}
	byID := make(map[string]service.CatalogModel, len(catalog))
	for _, m := range catalog {
		byID[m.ID] = m
	}
	refused := map[string]string{}
	for _, m := range models {
		switch entry, ok := byID[m.ModelID]; {
		case !ok:
			refused[m.ModelID] = "the catalog has no model of this id; svc-agent models --all lists its models"
		case !entry.Active:
			refused[m.ModelID] = "the model is not in service any more"
		case !entry.Offerable():
			refused[m.ModelID] = "a vendor serves this model, and providers do not"
		}
	}
	return refused, nil
}
