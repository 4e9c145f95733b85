package engine

import "strings"

// modelList is an engine's list of its models; nil where the engine has none.
type modelList struct {
	Object string        `json:"object"`
	Data   []listedModel `json:"data"`
}

type listedModel struct {
	ID      string `json:"id"`
	OwnedBy string `json:"owned_by"`
	// MaxModelLen is the context of vLLM and SGLang, in tokens.
	MaxModelLen int64 `json:"max_model_len"`
}

// told reports whether the engine has sent a list, even an empty one. Ollama without a
// model writes null for the list, but names it a list.
func (l *modelList) told() bool { return l != nil && (l.Data != nil || l.Object == "list") }

// find looks a name up as Ollama does, which serves x:latest as x.
func (l *modelList) find(name string) *listedModel {
	if l == nil {
		return nil
	}
	for i := range l.Data {
		if id := l.Data[i].ID; id == name || strings.TrimSuffix(id, ":latest") == name {
			return &l.Data[i]
		}
	}
	return nil
}
