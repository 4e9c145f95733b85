package openaiapi

// grammar is the set of members that the body of one kind may have.
type grammar struct {
	// byName has the members that are known. Others pass through.
	byName   map[string]field
	required []field
	// read consumes the value of a known member, which is not null.
	read func(*parser, field)
	// dropped are not sent on.
	dropped map[field]bool
	// finish checks and patches what depends on the whole request; nil for nothing.
	finish func(*parser) error
}

var grammars = [kindCount]grammar{
	Chat: {
		byName:   named(chatFields...),
		required: []field{fieldModel, fieldMessages},
		read:     (*parser).read,
		dropped:  set(ours...),
		finish:   (*parser).finishChat,
	},
	Completion: {
		byName:   named(append(chatFields, fieldPrompt, fieldSuffix)...),
		required: []field{fieldModel, fieldPrompt},
		read:     (*parser).readCompletion,
		dropped:  set(append(ours, fieldMessages, fieldEcho, fieldSuffix, fieldBestOf, fieldLogprobs)...),
		finish:   (*parser).finishCompletion,
	},
	Embeddings: {
		byName:   named(append(ours, fieldModel, fieldInput, fieldEncodingFormat, fieldDimensions, fieldUser)...),
		required: []field{fieldModel, fieldInput},
		read:     (*parser).readEmbeddings,
		dropped:  set(ours...),
	},
	Images: {
		byName: named(append(ours, fieldModel, fieldPrompt, fieldN, fieldStream, fieldSize, fieldQuality, fieldStyle,
			fieldBackground,
			fieldModeration, fieldOutputFormat, fieldOutputCompression, fieldResponseFormat, fieldPartialImages, fieldUser)...),
		required: []field{fieldModel, fieldPrompt},
		read:     (*parser).readImages,
		dropped:  set(ours...),
		finish:   (*parser).finishImages,
	},
}

// ours are the gateway's own members, never sent on.
var ours = []field{fieldProvider, fieldModels, fieldUsage}

// chatFields is every member that a chat completion may have.
var chatFields = []field{
	fieldModel, fieldMessages, fieldStream, fieldStreamOptions, fieldMaxTokens, fieldMaxCompletionTokens, fieldN,
	fieldBestOf,
	fieldTemperature, fieldTopP, fieldPresencePenalty, fieldFrequencyPenalty, fieldLogprobs, fieldTopLogprobs,
	fieldPromptLogprobs,
	fieldStop, fieldSeed, fieldLogitBias, fieldResponseFormat, fieldTools, fieldToolChoice, fieldParallelToolCalls,
	fieldFunctions,
	fieldFunctionCall, fieldUser, fieldMetadata, fieldStore, fieldDocuments, fieldChatTemplate, fieldEcho,
	fieldIncludeReasoning, fieldProvider, fieldModels, fieldUsage,
}

func named(fields ...field) map[string]field {
	byName := make(map[string]field, len(fields))
	for _, f := range fields {
		byName[fieldNames[f]] = f
	}
	return byName
}

func set(fields ...field) map[field]bool {
	in := make(map[field]bool, len(fields))
	for _, f := range fields {
		in[f] = true
	}
	return in
}

// match finds the field that a decoded name means. exact reports whether the name is the
// field's own, and not equal to it by case folding alone.
func (g *grammar) match(name []byte) (f field, known, exact bool) {
	if f, known = g.byName[string(name)]; known {
		return f, true, true
	}
	var buf [maxFolded]byte
	folded, ok := fold(buf[:0], name)
	if !ok {
		return 0, false, false
	}
	f, known = g.byName[string(folded)]
	return f, known, false
}
