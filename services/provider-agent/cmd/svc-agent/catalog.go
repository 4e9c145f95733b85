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
	entries, err := catalogOf(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return refusedOf(entries, models), nil
}

// catalogOf asks for the catalog, and returns its models by their ids. It fails with errNoService where
// the API's address is not known.
func catalogOf(ctx context.Context, cfg environment) (map[string]service.CatalogModel, error) {
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
	return byID, nil
}

// refusedOf returns the models that a catalog refuses, with the reasons.
func refusedOf(entries map[string]service.CatalogModel, models []provideragent.Model) map[string]string {
	refused := map[string]string{}
	for _, m := range models {
		switch entry, ok := entries[m.ModelID]; {
		case !ok:
			refused[m.ModelID] = "the catalog has no model of this id; svc-agent models --all lists its models"
		case !entry.Active:
			refused[m.ModelID] = "the model is not in service any more"
		case !entry.Offerable():
			refused[m.ModelID] = "a vendor serves this model, and providers do not"
		}
	}
	return refused
}
