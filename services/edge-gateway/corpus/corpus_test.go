package corpus

import (
	"os"
	"strconv"
	"testing"

	"github.com/tiktoken-go/tokenizer"

	"svc.internal/services/edge-gateway/internal/admission"
	"svc.internal/services/edge-gateway/internal/catalog"
	"svc.internal/services/edge-gateway/internal/openaiapi"
)

const (
	// fewPrompts is the short form of the test; CORPUS_PROMPTS asks for more
	// (make corpus: 100,000).
	fewPrompts = 4000
	// leastHeld is the share of prompts whose hold covers what engines count, in
	// thousandths, and leastHeldOfKind the share of each kind, so that no script pays
	// for the others.
	leastHeld       = 999
	leastHeldOfKind = 990
	// Engines' templates add this to a prompt of one message.
	templateTokens = 7
)

// vocabulary is one engine's tokenizer.
type vocabulary struct {
	name  string
	codec tokenizer.Codec
}

func vocabularies(t *testing.T) []vocabulary {
	t.Helper()
	var all []vocabulary
	for _, encoding := range []tokenizer.Encoding{tokenizer.Cl100kBase, tokenizer.O200kBase} {
		codec, err := tokenizer.Get(encoding)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, vocabulary{string(encoding), codec})
	}
	return all
}

// share counts prompts that are held whole, and sums up tokens.
type share struct {
	prompts, held           int
	real, estimated, inHold int64
}

func (s share) thousandths() int { return s.held * 1000 / max(s.prompts, 1) }

// TestTheHoldCoversWhatEnginesCount is hostile test 26: whatever script or form a
// prompt has, what admission holds covers it for 999 of 1,000.
func TestTheHoldCoversWhatEnginesCount(t *testing.T) {
	prompts := fewPrompts
	if asked, err := strconv.Atoi(os.Getenv("CORPUS_PROMPTS")); err == nil {
		prompts = asked
	}
	kinds := Kinds()
	each := (prompts + len(kinds) - 1) / len(kinds)
	model := &catalog.Model{ContextLength: 1 << 20, MaxOutputTokens: 1024}
	for _, v := range vocabularies(t) {
		var all share
		t.Logf("%-12s %-20s %8s %7s %14s %12s", "vocabulary", "kind", "prompts", "held", "estimate/real", "hold/real")
		for _, k := range kinds {
			var s share
			for n := range each {
				hold(t, &s, v, model, k.Prompt(uint64(n)))
			}
			logShare(t, v.name, k.Name, s)
			if s.thousandths() < leastHeldOfKind {
				t.Errorf("%s, %s: got %d of %d prompts held, want at least %d in 1,000", v.name, k.Name, s.held, s.prompts,
					leastHeldOfKind)
			}
			all.prompts, all.held = all.prompts+s.prompts, all.held+s.held
			all.real, all.estimated, all.inHold = all.real+s.real, all.estimated+s.estimated, all.inHold+s.inHold
		}
		logShare(t, v.name, "all", all)
		if all.thousandths() < leastHeld {
			t.Errorf("%s: got %d of %d prompts held, want at least %d in 1,000", v.name, all.held, all.prompts, leastHeld)
		}
	}
}

func logShare(t *testing.T, vocabulary, kind string, s share) {
	t.Helper()
	t.Logf("%-12s %-20s %8d %6.2f%% %14.2f %12.2f", vocabulary, kind, s.prompts, 100*float64(s.held)/float64(s.prompts),
		float64(s.estimated)/float64(s.real), float64(s.inHold)/float64(s.real))
}

// hold admits one prompt as the gateway does and compares.
func hold(t *testing.T, s *share, v vocabulary, model *catalog.Model, p Prompt) {
	t.Helper()
	req, err := openaiapi.Parse(openaiapi.Chat, p.Body)
	if err != nil {
		t.Fatalf("%v: %.200s", err, p.Body)
	}
	bounds, err := admission.BoundsOf(req.Size, model)
	if err != nil {
		t.Fatal(err)
	}
	count, err := v.codec.Count(p.Text)
	if err != nil {
		t.Fatal(err)
	}
	s.prompts++
	if bounds.HoldPromptTokens >= int64(count)+templateTokens {
		s.held++
	}
	s.real += int64(count)
	s.estimated += req.PromptTokens
	s.inHold += bounds.HoldPromptTokens
}
