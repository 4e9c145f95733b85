package flow

import (
	"encoding/json"

	"svc.internal/pkg/openai"
	"svc.internal/services/verifier/internal/claims"
	"svc.internal/services/verifier/internal/statistic"
)

// usageOf reads the claim of a visible answer from its body.
func usageOf(raw []byte, streamed bool) claims.Claim {
	var claim claims.Claim
	look := func(data []byte) {
		var m struct {
			Usage *struct {
				Prompt *int64 `json:"prompt_tokens"`
				Output *int64 `json:"completion_tokens"`
			} `json:"usage"`
		}
		if json.Unmarshal(data, &m) != nil || m.Usage == nil || m.Usage.Prompt == nil {
			return
		}
		claim = claims.Claim{Valid: true, Prompt: *m.Usage.Prompt}
		if m.Usage.Output != nil {
			claim.Output = *m.Usage.Output
		}
		claim.Valid = claim.Prompt >= 0 && claim.Output >= 0
	}
	if !streamed {
		look(raw)
		return claim
	}
	each(raw, look)
	return claim
}

// each calls see with the data of each event of a stream.
func each(raw []byte, see func(data []byte)) {
	r := openai.SSEReader{MaxEvent: statistic.MaxBody}
	r.Feed(raw)
	for {
		e, ok := r.Next()
		if !ok {
			break
		}
		if !e.Done {
			see(e.Data)
		}
	}
	if e, ok := r.End(); ok && !e.Done {
		see(e.Data)
	}
}
