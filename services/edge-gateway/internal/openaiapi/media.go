package openaiapi

import (
	"bytes"
	"encoding/base64"

	"svc.internal/pkg/jsonscan"
	"svc.internal/services/edge-gateway/internal/audio"
)

// What sound, files and other media are taken for. An estimate is what engines
// usually make of them, a bound what hardly any makes more of. A hold need not
// cover more than the model's window, which is for admission to say, so a bound
// may be generous.
const (
	// Engines that hear make 6 to 50 tokens of a second; engines of the Whisper
	// family fill up sound that is shorter than 30 s, at 50 tokens a second at most.
	audioTokensPerSecond = 25
	audioBoundPerSecond  = 50
	audioLeast           = 128
	audioBoundLeast      = 30 * audioBoundPerSecond
	// Sound that cannot be measured is as long as speech at the usual bit
	// rates, or at the lowest that any codec has, 6 kbit/s. Both are bytes of
	// base64.
	audioBytesPerToken      = 1024
	audioBytesPerBoundToken = 20
	// A file is mostly text, in base64; at most, it is text that was packed.
	fileBytesPerToken = 5
	// Video is a token for 256 bytes of base64. Engines that see it read at most
	// 128 Ki tokens of it; no other medium that only its address names is larger.
	videoBytesPerToken = 256
	mediaBound         = 128 << 10
)

// sound reads {"data":…,"format":…}.
func (p *parser) sound() {
	found := 0
	p.members(func(name []byte) {
		if string(name) != "data" {
			p.vendor(name)
			return
		}
		found++
		p.push("data")
		if raw := p.kind(jsonscan.String); !p.stopped() {
			p.blobOrAddress(raw)
			p.hear(unescaped(raw))
		}
		p.leave()
	})
	switch {
	case p.stopped():
	case found == 0:
		p.missing("data")
	case found > 1:
		p.duplicate("data")
	}
}

// hear counts sound in base64, or in a data URL, by the time that it plays.
func (p *parser) hear(text []byte) {
	if hasScheme(text, "data:") {
		_, text, _ = bytes.Cut(text, []byte(","))
	}
	tokens := audioLeast + int64(len(text))/audioBytesPerToken
	bound := audioBoundLeast + int64(len(text))/audioBytesPerBoundToken
	data := make([]byte, base64.StdEncoding.DecodedLen(len(text)))
	if n, err := base64.StdEncoding.Decode(data, text); err == nil {
		if millis, _, err := audio.Measure(data[:n]); err == nil {
			tokens = audioLeast + millis*audioTokensPerSecond/1000
			bound = audioBoundLeast + millis*audioBoundPerSecond/1000
		}
	}
	p.req.PromptTokens += tokens
	p.req.PromptBound += bound
}

// file reads {"file_data":…} or {"file_id":…}.
func (p *parser) file() {
	p.members(func(name []byte) {
		if string(name) != "file_data" {
			p.vendor(name)
			return
		}
		p.push("file_data")
		if raw := p.kind(jsonscan.String); !p.stopped() {
			p.blobOrAddress(raw)
			p.blob(len(raw)-len(`""`), fileBytesPerToken)
		}
		p.leave()
	})
}

// blob counts so many bytes of data that some engines may take for text.
func (p *parser) blob(size int, bytesPerToken int64) {
	p.req.PromptTokens += int64(size) / bytesPerToken
	p.req.PromptBound += max(int64(size), mediaBound)
}

// foreignString counts a raw JSON string of a content part that nobody knows.
func (p *parser) foreignString(raw []byte) {
	text := unescaped(raw)
	scheme, rest, _ := bytes.Cut(text[:min(len(text), maxScheme)], []byte(":"))
	if len(rest) == 0 {
		p.count(text)
		return
	}
	switch {
	case !hasScheme(scheme, "data"):
		if bytes.HasPrefix(rest, []byte("//")) {
			p.req.PromptBound += mediaBound
		}
		p.count(text)
	case hasScheme(rest, "image/"):
		p.picture(text)
	case hasScheme(rest, "audio/"):
		p.hear(text)
		p.req.PromptBound += int64(len(text)) // were it text after all
	case hasScheme(rest, "video/"):
		p.blob(len(text), videoBytesPerToken)
	default:
		p.blob(len(text), fileBytesPerToken)
	}
}

// maxScheme is as much of an address as tells what it names.
const maxScheme = 32

// unescaped is the text of a raw JSON string, which the cursor has checked.
func unescaped(raw []byte) []byte {
	text := raw[1 : len(raw)-1]
	if bytes.IndexByte(text, '\\') < 0 {
		return text
	}
	decoded, err := jsonscan.AppendDecoded(nil, raw)
	if err != nil {
		return text
	}
	return decoded
}
