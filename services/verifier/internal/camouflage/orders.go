package camouflage

import (
	"math"
	"math/rand/v2"
	"strings"
)

// Turn is one message of an order.
type Turn struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// Order is one call of an SDK, in the form of the drivers of services/proving/e2e.
type Order struct {
	SDK       string `json:"sdk"`
	Op        string `json:"op"`
	Prompt    string `json:"prompt"`
	MaxTokens int    `json:"max_tokens"`
	Usage     bool   `json:"usage"`
	HangUp    bool   `json:"hang_up"`
	// Before are the messages before the prompt.
	Before []Turn `json:"before,omitempty"`
	// The parameters are not sent where they are nil or 0.
	Temperature *float64 `json:"temperature,omitempty"`
	TopP        *float64 `json:"top_p,omitempty"`
	// Penalties sends both penalties as 0, as code does that a playground wrote.
	Penalties   bool   `json:"penalties,omitempty"`
	Seed        *int64 `json:"seed,omitempty"`
	TopLogprobs int    `json:"top_logprobs,omitempty"`
}

// choice is a value with its frequency.
type choice[T any] struct {
	value T
	often int
}

func choose[T any](d *rand.Rand, of []choice[T]) T {
	total := 0
	for _, c := range of {
		total += c.often
	}
	at := d.IntN(total)
	for _, c := range of {
		if at -= c.often; at < 0 {
			return c.value
		}
	}
	panic("unreachable")
}

// The habits of consumers. They are assumptions: there is no traffic yet to count. What the
// figures say of camouflage does not rest on them where requests are compared in equal
// cells.
var (
	sdks = []choice[string]{
		{"openai-4", 8}, {"openai-5", 12}, {"openai-6", 20}, {"ai-sdk", 12}, {"langchain", 10}, {"go-openai", 8},
		{"openai-go", 8}, {"raw", 22},
	}
	temperatures = []choice[float64]{{absent, 30}, {0, 34}, {1, 12}, {.7, 11}, {.2, 6}, {.3, 3}, {.5, 4}}
	bounds       = []choice[int]{
		{0, 30}, {50, 2}, {64, 2}, {100, 6}, {128, 5}, {150, 4}, {200, 4}, {256, 8}, {300, 3}, {400, 2}, {500, 6},
		{512, 7}, {800, 2}, {1_000, 6}, {1_024, 7}, {2_000, 2}, {2_048, 4},
	}
	asks = []string{
		"Explain this to me.", "Summarize the text below.", "What is the main point here?", "tl;dr please",
		"Rewrite this in simpler words.", "Can you check the grammar of this paragraph?", "Translate to German:",
		"List the key facts.", "Why would someone do this?", "Give me an example for this.",
		"Is this still true today? Answer briefly.", "What are the risks?", "Turn this into bullet points",
		"Write a test for this behaviour.", "help me understand", "What does the author assume?",
		"Write a short reply to this message:", "Continue this text.", "Find a title.",
		"Extract all names that are mentioned.", "Who is this for?", "Make it more formal", "Say something.",
	}
	systems = []string{
		"You are a helpful assistant.", "You are a helpful assistant. Keep your answers short.",
		"Answer in plain text without headings.", "You are an expert programmer.", "Answer briefly.",
	}
)

const (
	// medianText and spreadText say how long the texts of prompts are: their logarithm is
	// normal. maxText bounds them in bytes.
	medianText = 900
	spreadText = 1.1
	maxText    = 12_000
)

const (
	// Usual is how many orders are as consumers make them, and alike how many more there are
	// whose parameters probes could have: of the usual ones these are too few to compare.
	Usual = 2_400
	alike = 3_200
)

// Orders returns calls of consumers, by a fixed seed, of texts of paragraphs.
func Orders(paragraphs []string) []Order {
	d := rand.New(rand.NewPCG(2026, 11)) //nolint:gosec // the same calls on every run
	var orders []Order
	for len(orders) < Usual {
		orders = append(orders, order(d, paragraphs))
	}
	for len(orders) < Usual+alike {
		if o := order(d, paragraphs); o.judgeable() {
			orders = append(orders, o)
		}
	}
	return orders
}

// judgeable reports whether a probe could have the parameters of an order. Whole
// distributions at temperature 1 are rare, so that most orders at temperature 0 are left out.
func (o Order) judgeable() bool {
	if o.Temperature == nil || o.MaxTokens > 1_024 {
		return false
	}
	return *o.Temperature == 0 && len(o.Prompt)%4 == 0 || *o.Temperature == 1 && o.TopP != nil
}

func order(d *rand.Rand, paragraphs []string) Order {
	o := Order{SDK: choose(d, sdks), Op: "chat", MaxTokens: choose(d, bounds)}
	if d.IntN(10) < 6 {
		o.Op, o.Usage, o.HangUp = "stream", d.IntN(2) == 0, d.IntN(60) == 0
	}
	if t := choose(d, temperatures); t != absent {
		o.Temperature = &t
	}
	if one := 1.0; o.Temperature != nil && *o.Temperature == 1 && d.IntN(3) > 0 {
		o.TopP, o.Penalties = &one, d.IntN(2) == 0
	}
	if d.IntN(16) == 0 {
		seed := int64(d.IntN(100_000))
		o.Seed = &seed
	}
	if d.IntN(40) == 0 {
		o.TopLogprobs = 5
	}
	text := func(bytes int) string { return composed(d, paragraphs, bytes) }
	length := int(math.Min(maxText, medianText*math.Exp(spreadText*d.NormFloat64())))
	if d.IntN(5) < 2 {
		system := systems[d.IntN(len(systems))]
		if d.IntN(2) == 0 {
			system += " " + text(1+d.IntN(300))
		}
		o.Before = append(o.Before, Turn{"system", system})
	}
	if d.IntN(4) == 0 {
		for range 1 + d.IntN(3) {
			o.Before = append(o.Before, Turn{"user", asked(d, text(length/4))}, Turn{"assistant", text(1 + d.IntN(900))})
		}
		length /= 3
	}
	o.Prompt = asked(d, text(length))
	return o
}

// composed returns paragraphs of about so many bytes.
func composed(d *rand.Rand, paragraphs []string, bytes int) string {
	var b strings.Builder
	for b.Len() < bytes {
		if b.Len() > 0 {
			b.WriteString([]string{" ", " ", "\n\n", "\n"}[d.IntN(4)])
		}
		b.WriteString(paragraphs[d.IntN(len(paragraphs))])
	}
	return b.String()
}

// asked puts a question to a text, before or behind it.
func asked(d *rand.Rand, text string) string {
	ask := asks[d.IntN(len(asks))]
	switch d.IntN(4) {
	case 0:
		return ask + "\n\n" + text
	case 1:
		return ask + " " + text
	case 2:
		return text + "\n\n" + ask
	default:
		return ask + "\n\n```\n" + text + "\n```"
	}
}
