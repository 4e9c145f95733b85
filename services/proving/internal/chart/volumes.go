package chart

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// files are the files of a pod's volume by their path in it.
func (r *release) files(p pod, name string, secrets secrets) (map[string]file, error) {
	v, ok := p.volumes[name]
	if !ok {
		return nil, errors.New("the pod mounts it and does not have it")
	}
	files := map[string]file{}
	switch {
	case v.ConfigMap != nil:
		data, ok := r.configs[v.ConfigMap.Name]
		if !ok {
			return nil, fmt.Errorf("there is no ConfigMap %s", v.ConfigMap.Name)
		}
		for path, content := range data {
			files[path] = file{[]byte(content), true}
		}
	case v.Secret != nil:
		return files, secrets.give(files, v.Secret.Name, v.Secret.Items)
	case v.Projected != nil:
		for _, source := range v.Projected.Sources {
			if source.Secret == nil {
				return nil, errors.New("a source of it is no Secret")
			}
			if err := secrets.give(files, source.Secret.Name, source.Secret.Items); err != nil {
				return nil, err
			}
		}
	case v.EmptyDir == nil:
		return nil, errors.New("its kind is not known here")
	}
	return files, nil
}

// writeFiles writes the files of a volume. Settings are changed for this machine.
func writeFiles(dir string, files map[string]file, here *loopback) (err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for path, f := range files {
		if f.configMap {
			if f.content, err = here.file(path, f.content); err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
		}
		path = filepath.Join(dir, filepath.FromSlash(path))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(path, f.content, 0o600); err != nil {
			return err
		}
	}
	return nil
}
