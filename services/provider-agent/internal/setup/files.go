package setup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"go.yaml.in/yaml/v3"

	"svc.internal/services/provider-agent/internal/offer"
)

// The files of a folder that was set up.
const (
	keyName    = "provider-key"
	modelsName = "models.json"
	configName = "config.yaml"
)

// maxConfig bounds the configuration, in bytes.
const maxConfig = 64 << 10

func (w *wizard) keyPath() string { return filepath.Join(w.Home, keyName) }

func (w *wizard) modelsPath() string {
	if w.Models != "" {
		return w.Models
	}
	return filepath.Join(w.Home, modelsName)
}

// readModels reads a models.json; nil when there is none.
func readModels(path string) ([]offer.Model, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return offer.Load(path)
}

// write writes models.json, if models were chosen, and config.yaml.
func (w *wizard) write() error {
	if len(w.chosen) > 0 {
		models := make([]offer.Model, 0, len(w.chosen))
		for _, o := range w.chosen {
			models = append(models, offer.Model{ModelID: o.id, EngineURL: o.engine.URL, LocalModel: o.local,
				ContextLength: o.window, Capacity: w.Capacity})
		}
		if err := offer.Edit(w.modelsPath(), func(existing []byte) ([]byte, error) {
			return offer.Merge(existing, models)
		}); err != nil {
			return err
		}
		w.ask.say("The models are in %s.", w.modelsPath())
	}
	path := filepath.Join(w.Home, configName)
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the configuration: %w", err)
	}
	settings := [][2]string{{"service_url", w.ServiceURL}, {"ws_url", w.HubURL}, {"models", w.modelsPath()},
		{"node_name", w.NodeName}}
	if w.keyWritten { // else the key stays where the owner has it
		settings = append(settings, [2]string{"provider_key", "file:" + w.keyPath()})
	}
	changed, err := setAll(text, settings)
	if err != nil {
		return fmt.Errorf("%s is not changed: %w", path, err)
	}
	if err := replace(path, changed); err != nil {
		return err
	}
	w.ask.say("The settings are in %s.", path)
	return nil
}

// setAll sets keys of a YAML file and leaves its other keys and comments as they are.
func setAll(text []byte, settings [][2]string) ([]byte, error) {
	if len(text) > maxConfig {
		return nil, fmt.Errorf("it is longer than %d bytes", maxConfig)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, err
	}
	if doc.Kind == 0 {
		doc = yaml.Node{Kind: yaml.DocumentNode, Content: []*yaml.Node{{Kind: yaml.MappingNode}}}
	}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		return nil, errors.New("it is not a map of settings")
	}
	for _, s := range settings {
		if s[1] == "" {
			continue
		}
		set(root, s[0], s[1])
	}
	return yaml.Marshal(&doc)
}

// set sets one key of a mapping.
func set(root *yaml.Node, key, value string) {
	for i := 0; i+1 < len(root.Content); i += 2 {
		if root.Content[i].Value == key {
			root.Content[i+1].SetString(value)
			return
		}
	}
	text := &yaml.Node{}
	text.SetString(value)
	root.Content = append(root.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: key}, text)
}

// writeKey keeps the provider key.
func (w *wizard) writeKey() error {
	w.keyWritten = true
	return replace(w.keyPath(), []byte(w.Key.Reveal()+"\n"))
}

// replace writes a file that only its owner may read, whole or not at all.
func replace(path string, text []byte) error {
	fail := func(err error) error { return fmt.Errorf("write %s: %w", path, err) }
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fail(err)
	}
	file, err := os.CreateTemp(filepath.Dir(path), ".setup-*") // of mode 0600
	if err != nil {
		return fail(err)
	}
	_, err = file.Write(text)
	err = errors.Join(err, file.Sync(), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return fail(errors.Join(err, os.Remove(file.Name())))
	}
	return nil
}
