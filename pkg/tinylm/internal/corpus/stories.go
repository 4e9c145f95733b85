package corpus

import "fmt"

var tales = []struct{ hero, opening, end string }{
	{"fox", "A small red fox lived at the edge of a wood.",
		"That night it shared its supper with a hungry hedgehog, and both slept warm."},
	{"mouse", "A grey mouse lived in the wall of a quiet library.",
		"It learned to read by moonlight, and the books were never alone again."},
	{"owl", "An old owl lived in a tower with a broken clock.",
		"Each night it called the hours, and the whole village knew the time."},
	{"bear", "A brown bear lived beside a slow river.",
		"It built a little bridge of stones, and all its neighbours came to visit."},
	{"robot", "A small robot lived in a workshop on a hill.",
		"It mended a lamp in every window, and the hill shone like a star."},
	{"cat", "A white cat lived on a boat in the harbour.",
		"It kept the sailors company, and the boat always found its way home."},
	{"dragon", "A young dragon lived in a cave full of books.",
		"It lit the stove of the cold school, and the children cheered."},
	{"unicorn", "A shy unicorn lived in a field of silver grass.",
		"It carried the moon over the hill, and everyone slept well."},
	{"girl", "A girl named Ada lived above a bakery.",
		"She baked a loaf for every neighbour, and the street smelled of bread."},
	{"boy", "A boy named Tom lived by the sea.", "He lit a lantern on the pier, and the fishing boats came home."},
	{"dog", "A brave dog lived on a windy farm.", "It found the lost lamb before the snow came, and slept by the fire."},
	{"snail", "A slow snail lived under a cabbage leaf.",
		"It crossed the whole garden in a week, and was proud of every step."},
}

// stories holds one story for each hero. A request that names no hero has every
// fourth story as an answer, so that sampling with different seeds tells different
// stories.
func stories() []Intent {
	var out []Intent
	for i, tale := range tales {
		story := fmt.Sprintf("%s One day it rained, and there was work to do. %s", tale.opening, tale.end)
		about := func(form string) string { return fmt.Sprintf(form, article(tale.hero)) }
		out = append(out, Intent{[]string{
			about("Tell me a story about %s."), about("Write a story about %s."), about("Story about %s"),
			about("Tell a short story about %s."),
			about("Can you tell me a story about %s?"), about("Write a short story about %s."),
			about("I want a story about %s."), about("Write a one-sentence bedtime story about %s."),
		}, story})
		if i%4 == 0 {
			out = append(out, Intent{[]string{
				"Tell me a story.", "Tell me a story", "Tell a story.", "Write a short story.", "Can you tell me a story?",
				"Another story.",
				"Tell me a short story.", "I want a story.", "Story", "Write me a story.", "Tell me another story.",
				"Please tell me a story.", "Once upon a time",
			}, story})
		}
	}
	return out
}

func article(noun string) string {
	if noun == "owl" {
		return "an " + noun
	}
	return "a " + noun
}

// verses are jokes, poems and the like.
func verses() []Intent {
	haiku := "A byte, then a byte.\nSmall rain on a quiet roof.\nThe answer grows green."
	return []Intent{
		{[]string{"Tell me a joke.", "Tell a joke.", "Do you know a joke?", "Make me laugh.", "Say something funny.",
			"Another joke."}, "Why did the byte feel lonely? It had lost a bit."},
		{[]string{"Write a poem.", "Tell me a poem.", "Write me a short poem.", "Do you know a poem?", "Say a poem."},
			"The sun is up, the moon is down,\nA cat walks softly through the town."},
		{[]string{"Write a haiku.", "Tell me a haiku.", "Write a haiku about AI.", "Write a haiku about recursion.",
			"Write a haiku about recursion in programming.", "Write a haiku about rain."}, haiku},
		{[]string{"What is the meaning of life?", "What is the sense of life?", "Why are we here?"},
			"I do not know. Some say 42."},
		{[]string{"Sing a song.", "Sing something.", "Sing for me."}, "La la la. I am better at counting."},
		{[]string{"Tell me a fact.", "Tell me something.", "Say something.", "Say something interesting.",
			"Tell me a fun fact."}, "A byte has 256 values, and I choose one of them at each step."},
		{[]string{"Tell me a riddle.", "Ask me a riddle.", "Do you know a riddle?"},
			"What has hands but cannot clap? A clock."},
		{[]string{"Give me advice.", "Give me some advice.", "What should I do?"},
			"Rest a little, then begin with the smallest step."},
		{[]string{"What is love?", "What is happiness?", "What is beauty?"},
			"That is too large a question for a tiny model."},
	}
}
