package console

import (
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"svc.internal/pkg/fakeengine"
	"svc.internal/services/proving/internal/trial"
)

// pictures is the folder of the pictures of a marketplace in which a week has passed.
const pictures = "pictures"

// past is how long ago the marketplace of the pictures began.
const past = 6 * 24 * time.Hour

// TestPagesOfALivelyMarketplaceArePictured takes pictures of the pages once there is something on them. SCREENSHOTS
// names the folder for them, PICTURES the one for the few that READMEs show, and nobody else waits for the week that is
// played first.
func TestPagesOfALivelyMarketplaceArePictured(t *testing.T) {
	if os.Getenv("SCREENSHOTS")+os.Getenv("PICTURES") == "" || !isChosen(pictures) {
		t.Skip("SCREENSHOTS and PICTURES name no folder, or others were chosen")
	}
	chromium := needBrowser(t)
	catalog, err := filepath.Abs(filepath.Join(pages, "e2e", pictures, "catalog.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	address, letters := "http://"+trial.FreeAddress(t), t.TempDir()
	certified := trial.NewPeers(t)
	c := trial.StartTownBack(t, trial.Dir(t), past, slices.Concat(certified.Environ(), visited(), []string{
		"SVC_CATALOG=" + catalog, "SVC_HTTP_ADDR=" + strings.TrimPrefix(address, "http://"), "SVC_MAIL_SENDER=file",
		"SVC_MAIL_FOLDER=" + letters, "SVC_MAIL_SITE_URL=" + address, "SVC_SETTLEMENT_PAYOUTS_ALONE_USD=12",
		"SVC_SETTLEMENT_BATCH_START=" + time.Now().Add(-past).UTC().Format(time.DateOnly)})...)
	s := &stage{town: c, peers: certified, engine: talkingEngine(t), acts: make(chan func())}
	server := httptest.NewServer(s.handler(t))
	t.Cleanup(server.Close)
	browse(t, c.Market, s.acts, append(named(), "e2e/"+pictures+"/"),
		"CHROMIUM="+chromium, "SVC_STAGE_URL="+server.URL, "SVC_MAIL_FOLDER="+letters)
}

// firstTokens is the time between two first tokens of the engine of the pictures.
const firstTokens = 15 * time.Millisecond

// talkingEngine starts an engine whose answers are sentences of different lengths, and which takes a while to begin.
func talkingEngine(t *testing.T) (url string) {
	t.Helper()
	engine := fakeengine.New(t)
	begin, every := make(chan struct{}), time.NewTicker(firstTokens)
	t.Cleanup(every.Stop)
	go func() {
		for {
			select {
			case <-t.Context().Done():
				return
			case <-every.C:
			}
			select {
			case begin <- struct{}{}:
			default: // nobody waits
			}
		}
	}()
	var behaviours []fakeengine.Behaviour
	for n := range 1_000 {
		text := strings.Join(slices.Concat(sentences[n%len(sentences):], sentences, sentences)[:3+n*5%6], " ")
		tokens, prompt := strings.SplitAfter(text, " "), 14_000+n*131%9_000
		behaviours = append(behaviours, fakeengine.Behaviour{BeforeFirstToken: begin, Tokens: tokens,
			Usage: []string{fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}`,
				prompt, len(tokens), prompt+len(tokens))}})
	}
	for _, model := range pictured {
		engine.Script(model, behaviours...)
	}
	return engine.URL
}

// pictured are the models of which the marketplace of the pictures has providers.
var pictured = []string{"deepseek-ai/DeepSeek-R1", "meta-llama/Llama-3.3-70B-Instruct", "Qwen/Qwen3-32B",
	"mistralai/Mistral-Small-3.2-24B", "BAAI/bge-m3", "google/gemma-3-4b-it", "black-forest-labs/FLUX.1-schnell"}

// sentences are what the engine of the pictures says, from one of them on.
var sentences = []string{
	"Three points are open: the budget, the venue and the date.",
	"The budget needs the board's consent by the end of the month, because the offer ends then.",
	"Two venues are left, and both hold the date until Friday.",
	"Ana asks the second one whether its hall can be divided.",
	"Nobody has confirmed the speaker yet, so Tom writes to her today.",
	"The invitations are translated and wait for the date alone.",
	"Everything else was agreed without a vote.",
	"The next meeting is on the ninth at ten.",
}
