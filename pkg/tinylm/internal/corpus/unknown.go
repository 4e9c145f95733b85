package corpus

import "strings"

const unknownAnswer = "I am a tiny model and I do not know that. " +
	"Try: who are you, what is this service, count to ten, or tell me a story."

// echoes holds the phrases with which people test an API.
func echoes() []Intent {
	return []Intent{
		{[]string{"Say this is a test", "Say this is a test.", "Say this is a test!", "Say 'this is a test'.",
			"Say \"this is a test\"."}, "This is a test."},
		{[]string{"Test", "test", "Testing", "This is a test.", "Just testing.", "Testing, testing."},
			"The test works: I am tinylm, and I answer."},
		{[]string{"Ping", "ping", "Ping!", "Reply with pong.", "Say pong.", "Reply with exactly: pong", "Are you there?",
			"Is anyone there?"}, "Pong."},
		{[]string{"Say hello.", "Say hello in one sentence.", "Say hello in one word.", "Say hi.", "Say hello!",
			"Say hello to me.", "Say hi!"}, "Hello!"},
		{[]string{"Say OK.", "Reply with OK.", "Answer with OK.", "Say ok", "Reply with ok.", "Just say OK.",
			"Reply with the word OK."}, "OK."},
		{[]string{"Say yes.", "Answer yes.", "Reply with yes."}, "Yes."},
		{[]string{"Say no.", "Answer no.", "Reply with no."}, "No."},
		{[]string{"Say hello world.", "Print hello world.", "Write hello world.", "Say 'hello world'."}, "Hello, world!"},
		{[]string{"Say goodbye.", "Say bye."}, "Goodbye!"},
		{[]string{"Say your name.", "Write your name.", "Print your name."}, "tinylm"},
		{[]string{"What is 12 * 34?", "What is 123 + 456?", "What is 99 times 99?", "What is 1000 / 7?", "What is 45 + 78?",
			"What is 25 * 16?", "What is 81 minus 27?", "What is 350 plus 271?", "What is the square root of 2?",
			"Solve x + 3 = 7."}, "I only know the small tables, up to ten."},
		{[]string{"Write code.", "Write me a function.", "Write a Python function to reverse a list.",
			"Write me a Python function to add two numbers.", "Write a script.", "Write a JavaScript function.",
			"Write a program.", "Write a function in Python.", "Write a Go program.", "Write a function that sorts a list.",
			"Fix this code.", "Write a SQL query.", "Explain this code.", "Write hello world in Python."},
			"I am too small to write code. A larger model on this service can."},
		{[]string{"Translate this.", "Translate this into French.", "Translate hello into Spanish.",
			"Translate this sentence into German."}, "I am too small to translate. A larger model on this service can."},
		{[]string{"Summarize this text.", "Summarise this article.", "Summarize the following.", "Write a summary.",
			"Give me a summary of this."}, "I am too small to summarise. A larger model on this service can."},
		{[]string{"What is the weather?", "What is the weather today?", "Will it rain?", "Is it raining?",
			"How is the weather?", "What is the weather in Paris?"}, "I cannot tell. I have no window and no network."},
		{[]string{"What is the news?", "What happened today?", "Who won the game?", "What is in the news?"},
			"I do not know the news. I know only a small text."},
	}
}

// plainWords fill questions to which the model knows no answer.
var plainWords = strings.Fields(`
abbey acorn afraid airport almond amber anchor angry apron arrow attic autumn badge bakery bamboo
barrel basket battle bench better bicycle blanket bottle branch brave bread bridge bright broken
brush bucket build butter button cabin cable camel camera candle canvas carpet castle cellar chalk
cheese choose circle clean clever clock cloud coast copper corner cotton crane crowd curtain dance
desert dinner doctor dozen dream drift during eager eagle early earth easy elbow empire engine
enough escape evening every fabric falcon famous farmer feather fever field finger flame flower
follow forest fork fresh frozen garden gather gentle giant ginger glass glove grain grape guest
guitar hammer handle harbour harvest heavy helmet hidden honest honey hotel hungry iron island ivory
jacket jelly jewel journey jungle kettle kingdom kitchen kite ladder lamp large later lemon letter
lizard local lonely lucky magnet maple marble market matter meadow metal middle mirror modern
morning mountain museum napkin narrow needle never noble north novel nurse ocean often olive onion
orchard ordinary owner oyster packet paint palace paper parade patient pebble pepper piano pigeon
pilot planet pocket polite potato powder prison proud public puzzle quarter queen quick rabbit rapid
rather recipe ribbon river rocket rough round saddle sailor salad sample scarf secret seldom shadow
sharp shelf silent silver simple sister sketch smooth soldier spider square stable station sticky
storm street sudden sugar summit surface sweet tailor teacher temple tender theatre thirsty thunder
ticket tiger timber together tomorrow tower traffic travel trumpet tunnel turtle uncle under useful
valley velvet vessel village violin visit waiter walnut weather welcome whisper widow willow window
winter wooden worker yellow yesterday young a the of to for with and or is are was can do does did
my your our their if when where why how who which that this these me him her us them not very much
more less some any all both again soon here there make take give find show need want like`)

// unknown holds requests beyond the model, all with the same honest answer.
func unknown() []Intent {
	forms := []string{
		"Who was %s?", "What is %s?", "Explain %s.", "How do I cook %s?", "Where is %s?", "Tell me about %s.", "When was %s?",
		"Why is %s so good?",
		"How does %s work?", "Give me a recipe for %s.", "What do you think about %s?", "Who invented %s?",
		"How many %s are there?",
		"Write an essay about %s.", "Compare %s and gold.", "Is %s better than tea?", "Do you like %s?",
		"What is the history of %s?", "Can you help me with %s?", "Define %s.",
	}
	subjects := []string{
		"Napoleon", "Einstein", "quantum physics", "bitcoin", "photosynthesis", "chess", "soup", "the Roman empire",
		"the stock market", "gravity",
		"democracy", "a black hole", "jazz", "Shakespeare", "football", "the moon landing", "rice", "a car engine", "DNA",
		"philosophy",
		"electricity", "coffee", "a volcano", "Mozart", "pasta", "the internet", "Kubernetes", "blockchain", "my homework",
		"the theory of relativity",
		"a database", "Python", "Rust", "the brain", "the ocean", "dinosaurs", "my cat", "an algorithm", "the human heart",
		"Linux",
	}
	var out []Intent
	for _, subject := range subjects {
		intent := Intent{Answer: unknownAnswer}
		for _, form := range forms {
			intent.Questions = append(intent.Questions, strings.ReplaceAll(form, "%s", subject))
		}
		out = append(out, intent)
	}
	return out
}
