package weights

import (
	"path/filepath"
	"slices"
)

// Stores are the folders in which engines keep the files of models.
type Stores struct {
	// Ollama are stores of Ollama: each has the files as blobs/sha256-<digest>.
	Ollama []string
	// Caches are caches of Hugging Face, which vLLM and SGLang use. Each has folders
	// models--owner--name, with the files as blobs, and with snapshots of links to the blobs.
	Caches []string
}

// StoreVariables returns the variables that tell engines where their stores are.
func StoreVariables() []string {
	return []string{"OLLAMA_MODELS", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"}
}

// StoresOf returns the stores at the places that the variables of an environment name, and at the places
// where engines have them by default. The stores need not exist.
func StoresOf(variable func(name string) string) Stores {
	home := variable("HOME")
	var s Stores
	s.Ollama = places(variable("OLLAMA_MODELS"), below(home, ".ollama", "models"),
		"/usr/share/ollama/.ollama/models") // where Ollama's own service for Linux has it
	s.Caches = places(variable("HF_HUB_CACHE"), variable("HUGGINGFACE_HUB_CACHE"), below(variable("HF_HOME"), "hub"),
		below(variable("XDG_CACHE_HOME"), "huggingface", "hub"), below(home, ".cache", "huggingface", "hub"))
	return s
}

// None reports whether there are no places to look at.
func (s Stores) None() bool { return len(s.Ollama) == 0 && len(s.Caches) == 0 }

// below returns a path below a folder; empty where folder is empty.
func below(folder string, names ...string) string {
	if folder == "" {
		return ""
	}
	return filepath.Join(append([]string{folder}, names...)...)
}

// places returns the paths that are absolute, each once.
func places(paths ...string) []string {
	var all []string
	for _, path := range paths {
		if path = filepath.Clean(path); filepath.IsAbs(path) && !slices.Contains(all, path) {
			all = append(all, path)
		}
	}
	return all
}
