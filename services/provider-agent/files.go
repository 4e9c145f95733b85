package provideragent

import (
	"context"
	"slices"

	"svc.internal/services/provider-agent/internal/service"
	"svc.internal/services/provider-agent/internal/weights"
)

// filesOf returns for each model where its files are, or under which names to look for them.
func filesOf(models []Model) []weights.Model {
	all := make([]weights.Model, 0, len(models))
	for _, m := range models {
		of := weights.Model{ID: m.ModelID, Folder: m.WeightsDir}
		if m.WeightsDir == "" && !m.WithoutFiles {
			of.Names = slices.Compact([]string{m.WithDefaults().LocalModel, m.ModelID})
		}
		all = append(all, of)
	}
	return all
}

// listing asks the catalog which files a model has. It needs no key.
func listing(cfg Config) weights.List {
	base := cfg.ServiceURL
	if base == "" {
		base = service.BaseOf(cfg.WSURL)
	}
	client, err := service.New(base)
	return func(ctx context.Context, model string) ([]weights.File, error) {
		if err != nil {
			return nil, err
		}
		listed, err := client.ModelFiles(ctx, model)
		if err != nil {
			return nil, err
		}
		files := make([]weights.File, len(listed))
		for i, f := range listed {
			files[i] = weights.File{Name: f.Name, Hash: f.Hash, Size: int64(f.Bytes), URL: f.URL}
		}
		return files, nil
	}
}
