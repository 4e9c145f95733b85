package openai

import "svc.internal/pkg/jsonscan"

// Rewrite is what a client sees in place of the engine's model name and usage. It is made
// once for a request and serves all its chunks.
type Rewrite struct {
	model     []byte // escaped, with quotes; nil to leave the engine's
	dropUsage bool
}

// NewRewrite returns a Rewrite that names model (the engine's name stays when
// it is empty) and, with dropUsage, removes the top-level usage.
func NewRewrite(model string, dropUsage bool) Rewrite {
	r := Rewrite{dropUsage: dropUsage}
	if model != "" {
		r.model = jsonscan.AppendString(nil, model)
	}
	return r
}

// Append appends the chunk or answer json, as c describes it, to dst. All other bytes are
// copied as they are. Members that equal "model" or "usage" only by case folding are
// treated alike, because some clients read them. An answer with choices or vectors but no
// model gets one.
//
// Append does not decide whether a chunk is sent at all: see Chunk.UsageOnly.
func (r Rewrite) Append(dst, json []byte, c *Chunk) []byte {
	at := 0
	if r.model != nil && c.lacksModel() {
		dst = append(dst, json[:c.open]...)
		dst = append(dst, `"model":`...)
		dst = append(append(dst, r.model...), ',')
		at = c.open
	}
	for _, e := range c.edits[:c.nEdit] {
		switch {
		case e.model && r.model != nil:
			dst = append(dst, json[at:e.span.Start]...)
			dst = append(dst, r.model...)
		case !e.model && r.dropUsage:
			dst = append(dst, json[at:e.span.Start]...)
		default:
			continue
		}
		at = e.span.End
	}
	return append(dst, json[at:]...)
}

// lacksModel reports whether clients look for a model that is not there.
func (c *Chunk) lacksModel() bool {
	return (c.HasChoices || c.named && c.DataItems > 0) && !c.Model.Found()
}

// Leaves reports whether Append would copy the chunk or answer unchanged.
func (r Rewrite) Leaves(c *Chunk) bool {
	if r.model != nil && c.lacksModel() {
		return false
	}
	for _, e := range c.edits[:c.nEdit] {
		if e.model && r.model != nil || !e.model && r.dropUsage {
			return false
		}
	}
	return true
}
