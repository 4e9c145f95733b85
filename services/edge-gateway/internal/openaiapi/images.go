package openaiapi

import "svc.internal/pkg/jsonscan"

// finishImages notes where response_format goes when the client did not say it.
func (p *parser) finishImages() error {
	switch {
	case p.present[fieldResponseFormat]:
	case p.met[fieldResponseFormat]:
		p.req.formatAt = &edit{span: p.null(fieldResponseFormat), text: `"b64_json"`}
	default:
		p.req.formatAt = &edit{span: jsonscan.Span{Start: p.open, End: p.open}, text: `"response_format":"b64_json",`}
	}
	return nil
}

// readImages consumes the value of a member of an images request. Sizes,
// qualities and formats are the engine's own to know.
func (p *parser) readImages(f field) {
	switch f {
	case fieldPrompt:
		p.counted(func() {
			if raw := p.kind(jsonscan.String); !p.stopped() && len(raw) == len(`""`) {
				p.refuse("must not be empty")
			}
		})
	case fieldN:
		p.req.Choices = max(1, p.integer(1, MaxImages))
	case fieldPartialImages:
		p.integer(0, MaxPartialImages)
	case fieldOutputCompression:
		p.integer(0, 100)
	case fieldResponseFormat:
		if format := p.text(MaxNameBytes); format != "url" && format != "b64_json" {
			p.refuse("must be url or b64_json")
		}
	case fieldSize, fieldQuality, fieldStyle, fieldBackground, fieldModeration, fieldOutputFormat:
		p.text(MaxNameBytes)
	default:
		p.read(f)
	}
}
