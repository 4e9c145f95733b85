package openaiapi

import (
	"unicode/utf8"
)

// field is a top-level member that the gateway knows.
type field uint8

const (
	fieldModel field = iota
	fieldMessages
	fieldStream
	fieldStreamOptions
	fieldMaxTokens
	fieldMaxCompletionTokens
	fieldN
	fieldBestOf
	fieldTemperature
	fieldTopP
	fieldPresencePenalty
	fieldFrequencyPenalty
	fieldLogprobs
	fieldTopLogprobs
	fieldPromptLogprobs
	fieldStop
	fieldSeed
	fieldLogitBias
	fieldResponseFormat
	fieldTools
	fieldToolChoice
	fieldParallelToolCalls
	fieldFunctions
	fieldFunctionCall
	fieldUser
	fieldMetadata
	fieldStore
	fieldDocuments
	fieldChatTemplate
	fieldEcho
	fieldIncludeReasoning
	fieldPrompt
	fieldSuffix
	fieldInput
	fieldEncodingFormat
	fieldDimensions
	fieldSize
	fieldQuality
	fieldStyle
	fieldBackground
	fieldModeration
	fieldOutputFormat
	fieldOutputCompression
	fieldPartialImages
	fieldProvider
	fieldModels
	fieldUsage

	fieldCount
)

var fieldNames = [fieldCount]string{
	fieldModel:               "model",
	fieldMessages:            "messages",
	fieldStream:              "stream",
	fieldStreamOptions:       "stream_options",
	fieldMaxTokens:           "max_tokens",
	fieldMaxCompletionTokens: "max_completion_tokens",
	fieldN:                   "n",
	fieldBestOf:              "best_of",
	fieldTemperature:         "temperature",
	fieldTopP:                "top_p",
	fieldPresencePenalty:     "presence_penalty",
	fieldFrequencyPenalty:    "frequency_penalty",
	fieldLogprobs:            "logprobs",
	fieldTopLogprobs:         "top_logprobs",
	fieldPromptLogprobs:      "prompt_logprobs",
	fieldStop:                "stop",
	fieldSeed:                "seed",
	fieldLogitBias:           "logit_bias",
	fieldResponseFormat:      "response_format",
	fieldTools:               "tools",
	fieldToolChoice:          "tool_choice",
	fieldParallelToolCalls:   "parallel_tool_calls",
	fieldFunctions:           "functions",
	fieldFunctionCall:        "function_call",
	fieldUser:                "user",
	fieldMetadata:            "metadata",
	fieldStore:               "store",
	fieldDocuments:           "documents",
	fieldChatTemplate:        "chat_template",
	fieldEcho:                "echo",
	fieldIncludeReasoning:    "include_reasoning",
	fieldPrompt:              "prompt",
	fieldSuffix:              "suffix",
	fieldInput:               "input",
	fieldEncodingFormat:      "encoding_format",
	fieldDimensions:          "dimensions",
	fieldSize:                "size",
	fieldQuality:             "quality",
	fieldStyle:               "style",
	fieldBackground:          "background",
	fieldModeration:          "moderation",
	fieldOutputFormat:        "output_format",
	fieldOutputCompression:   "output_compression",
	fieldPartialImages:       "partial_images",
	fieldProvider:            "provider",
	fieldModels:              "models",
	fieldUsage:               "usage",
}

// maxFolded is longer than any known name; a longer name matches none.
const maxFolded = 32

// fold appends the lower-case ASCII text that name equals under Unicode simple folding;
// it reports false when there is none. Only two characters outside ASCII fold into it:
// the Kelvin sign and the long s.
func fold(dst, name []byte) ([]byte, bool) {
	for i := 0; i < len(name); {
		if len(dst) == maxFolded {
			return nil, false
		}
		b := name[i]
		if b < utf8.RuneSelf {
			if 'A' <= b && b <= 'Z' {
				b += 'a' - 'A'
			}
			dst = append(dst, b)
			i++
			continue
		}
		r, size := utf8.DecodeRune(name[i:])
		switch r {
		case '\u212A':
			dst = append(dst, 'k')
		case '\u017F':
			dst = append(dst, 's')
		default:
			return nil, false
		}
		i += size
	}
	return dst, true
}

// foldsTo reports whether name equals want, a lower-case ASCII name, by case folding
// without being the same.
func foldsTo(name []byte, want string) bool {
	if string(name) == want {
		return false
	}
	var buf [maxFolded]byte
	folded, ok := fold(buf[:0], name)
	return ok && string(folded) == want
}
