package doctor

import (
	"context"
	"fmt"
	"strings"
)

// engines checks that each engine serves its model.
func (s Subject) engines(context.Context) []Finding {
	if len(s.Models) == 0 {
		return one("engine", Skipped, "no model is listed", "")
	}
	var found []Finding
	for _, m := range s.Models {
		if m.Fault == "" {
			found = append(found, of(m, "engine", OK, m.ModelID+" is served by "+m.EngineURL, ""))
			continue
		}
		found = append(found, of(m, "engine", Fails, m.ModelID+" at "+m.EngineURL+": "+m.Fault, engineFix(m)))
	}
	return found
}

// engineFix says what mends an engine's fault.
func engineFix(m Model) string {
	switch {
	case strings.Contains(m.Fault, "does not list"):
		return fmt.Sprintf("load the model as %s (Ollama: ollama pull %s), or set local_model to the engine's name",
			m.LocalModel, m.LocalModel)
	case strings.Contains(m.Fault, "api_key"):
		return "set the engine's key in models.json: api_key, or api_key_file"
	case strings.Contains(m.Fault, "does not answer"):
		return "start the engine, or correct its address in models.json"
	}
	return "look at the engine's log; curl " + m.EngineURL + "/models shows what it answers"
}

// catalog checks that the marketplace knows the models.
func (s Subject) catalog(ctx context.Context) []Finding {
	const check = "catalog"
	if s.Service == nil || len(s.Models) == 0 {
		return one(check, Skipped, "no service or no model is known", "")
	}
	catalog, err := s.Service.AllModels(ctx)
	if err != nil {
		return one(check, Warns, err.Error(), serviceFix)
	}
	known := map[string]bool{}
	for _, m := range catalog {
		known[m.ID] = m.Offerable()
	}
	var found []Finding
	for _, m := range s.Models {
		if known[m.ModelID] {
			found = append(found, of(m, check, OK, m.ModelID+" is in the catalog", ""))
			continue
		}
		found = append(found, of(m, check, Fails, m.ModelID+" is no model of the catalog that providers serve, "+
			"so no request will come",
			"use the catalog's id of the model: svc-agent models --all lists the ids"))
	}
	return found
}

// windows compares the windows that are declared with those of the engines.
func (s Subject) windows(context.Context) []Finding {
	found := make([]Finding, 0, len(s.Models))
	for _, m := range s.Models {
		found = append(found, window(m))
	}
	return found
}

// window compares the window that is declared for a model with that of its engine.
func window(m Model) Finding {
	const check = "context"
	switch {
	case m.Window == 0 && m.Declared == 0:
		return of(m, check, Warns, m.ModelID+": neither the engine nor models.json says its window",
			"set context_length in models.json to what the engine is started with")
	case m.Window == 0:
		return of(m, check, Warns, fmt.Sprintf("%s: %d tokens are declared, and the engine does not say",
			m.ModelID, m.Declared), "check that the engine is started with as many")
	case m.Declared > m.Window:
		return of(m, check, Warns, fmt.Sprintf("%s: models.json says %d tokens, and the engine holds %d, "+
			"which the agent declares", m.ModelID, m.Declared, m.Window), fmt.Sprintf("set context_length to %d, or start the "+
			"engine with more (vLLM --max-model-len, SGLang --context-length, Ollama num_ctx)", m.Window))
	}
	return of(m, check, OK, fmt.Sprintf("%s: %d tokens", m.ModelID, m.Window), "")
}
