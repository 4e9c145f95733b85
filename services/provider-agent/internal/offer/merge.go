package offer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// Merge writes models into the text of a models.json, which may be empty, and returns the
// text in the form of a map. Of an entry that is there already, it changes only the members that
// the model sets. Other entries stay as they are. It refuses a text with a fault.
func Merge(existing []byte, models []Model) ([]byte, error) {
	entries := map[string]map[string]json.RawMessage{}
	if len(bytes.TrimSpace(existing)) > 0 {
		if err := readEntries(existing, entries); err != nil {
			return nil, err
		}
	}
	for _, m := range models {
		entry := entries[m.ModelID]
		if entry == nil {
			entry = map[string]json.RawMessage{}
			entries[m.ModelID] = entry
		}
		if err := fillEntry(entry, m); err != nil {
			return nil, err
		}
	}
	merged, err := json.MarshalIndent(entries, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write the models: %w", err)
	}
	merged = append(merged, '\n')
	if _, err := Parse(merged); err != nil {
		return nil, err
	}
	return merged, nil
}

// readEntries reads the entries of a text as they stand there, or makes them of a list.
func readEntries(text []byte, into map[string]map[string]json.RawMessage) error {
	models, err := Parse(text)
	if err != nil {
		return err
	}
	var whole map[string]json.RawMessage
	if err := json.Unmarshal(text, &whole); err != nil {
		return fmt.Errorf("read the models: %w", err)
	}
	under, has := whole["models"]
	switch {
	case has && len(under) > 0 && under[0] == '[':
		for _, m := range models {
			entry := map[string]json.RawMessage{}
			if err := fillEntry(entry, m); err != nil {
				return err
			}
			into[m.ModelID] = entry
		}
		return nil
	case has:
		text = under
	}
	if err := json.Unmarshal(text, &into); err != nil {
		return fmt.Errorf("read the models: %w", err)
	}
	return nil
}

// fillEntry sets the members that a model sets. The endpoint is written without /v1, because
// agents for dialect v1 add it.
func fillEntry(entry map[string]json.RawMessage, m Model) error {
	m = m.WithDefaults()
	set := map[string]any{"endpoint": strings.TrimSuffix(m.EngineURL, "/v1"), "local_model": m.LocalModel}
	for key, value := range map[string]string{
		"quantization": m.Quantization, "revision": m.Revision, "api_key_file": m.APIKeyFile, "weights_dir": m.WeightsDir,
		"api_key": m.APIKey.Reveal(),
	} {
		if value != "" {
			set[key] = value
		}
	}
	if m.WithoutFiles {
		set["weights_dir"] = ""
	}
	set["capacity"] = m.Capacity
	if m.ContextLength > 0 {
		set["context_length"] = m.ContextLength
	}
	for key, value := range set {
		raw, err := json.Marshal(value)
		if err != nil {
			return fmt.Errorf("write the models: %w", err)
		}
		entry[key] = raw
	}
	return nil
}
