package fakeengine

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math"

	"svc.internal/pkg/openai"
)

const defaultDimensions = 3

// embedding is one vector of an answer.
type embedding struct {
	Object    string `json:"object"`
	Index     int    `json:"index"`
	Embedding any    `json:"embedding"` // []float32, or base64
}

// embed answers with a vector for each input.
func (a *answer) embed() {
	if a.BeforeFirstToken != nil && !a.wait(a.BeforeFirstToken) {
		return
	}
	inputs := inputsOf(a.request.media.Input)
	data := make([]embedding, a.counted(len(inputs)))
	for i := range data {
		vector := Vector(inputs[i%max(len(inputs), 1)], a.dimensions())
		data[i] = embedding{Object: "embedding", Index: i, Embedding: vector}
		if a.request.media.EncodingFormat == "base64" && !a.IgnoreFormat {
			data[i].Embedding = base64Of(vector)
		}
	}
	usages := a.Usage
	if usages == nil {
		usages = []string{fmt.Sprintf(`{"prompt_tokens":%d,"total_tokens":%d}`, PromptTokens, PromptTokens)}
	}
	a.answerWhole(func() []byte {
		return withUsages(a.object(struct {
			Object string      `json:"object"`
			Model  string      `json:"model"`
			Data   []embedding `json:"data"`
		}{openai.ObjectList, a.Model, data}), usages)
	})
}

// counted is the number of items in the answer when n were asked for.
func (a *answer) counted(n int) int {
	switch {
	case a.Count < 0:
		return 0
	case a.Count > 0:
		return a.Count
	}
	return n
}

func (a *answer) dimensions() int {
	switch {
	case a.request.media.Dimensions > 0:
		return a.request.media.Dimensions
	case a.Dimensions > 0:
		return a.Dimensions
	}
	return defaultDimensions
}

// inputsOf splits an input into the parts that get a vector each: a string, each string
// of a list, a list of tokens, or each of several lists of tokens.
func inputsOf(input json.RawMessage) []string {
	var many []json.RawMessage
	if json.Unmarshal(input, &many) != nil {
		return []string{string(input)}
	}
	if len(many) > 0 && !bytes.HasPrefix(many[0], []byte(`"`)) && !bytes.HasPrefix(many[0], []byte(`[`)) {
		return []string{string(input)} // one list of tokens
	}
	texts := make([]string, len(many))
	for i := range many {
		texts[i] = string(many[i])
	}
	return texts
}

// Vector is the vector of an input: numbers of few digits, at least -1 and below 1. The
// input is given as it stands in the request's JSON.
func Vector(input string, dimensions int) []float32 {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(input)) // cannot fail
	state := hash.Sum32()
	vector := make([]float32, dimensions)
	for i := range vector {
		state = state*1664525 + 1013904223
		vector[i] = float32(int32(state>>16)-1<<15) / (1 << 15)
	}
	return vector
}

// base64Of is a vector as little-endian float32.
func base64Of(vector []float32) string {
	raw := make([]byte, 0, 4*len(vector))
	for _, v := range vector {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
	}
	return base64.StdEncoding.EncodeToString(raw)
}
