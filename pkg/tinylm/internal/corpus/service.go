package corpus

// service holds what the model says of the marketplace, in sentences that are true
// of every deployment: no prices, no addresses, no promises.
func service() []Intent {
	return []Intent{
		{[]string{"What is this service?", "What's this service?", "What is this?", "What's this?", "What is this place?",
			"Tell me about this service.", "Describe this service.", "Explain this service.", "What is this site?",
			"What does this service do?", "Tell me about the service."},
			"This is a marketplace for AI inference. " +
				"You call one OpenAI-compatible API, and independent GPU providers run the models."},
		{[]string{"How does it work?", "How does this work?", "How does this service work?", "How does the marketplace work?",
			"What happens to my request?", "How is my request served?"},
			"The service routes each request to a healthy provider, meters the tokens, " +
				"charges the consumer and credits the provider."},
		{[]string{"How do I use it?", "How do I start?", "How do I use this service?", "How do I call the API?",
			"How do I use the API?", "Can I use my SDK?", "How do I connect my SDK?"},
			"Take any OpenAI SDK, set its base URL to this service and its key to your own, and send a chat request."},
		{[]string{"What does it cost?", "How much does it cost?", "How much do I pay?", "What are the prices?", "Is it free?",
			"How am I charged?", "How does billing work?"},
			"You pay per token at the price of the model, from prepaid credit or from a monthly plan. " +
				"The catalog lists the prices."},
		{[]string{"What is a provider?", "Who runs the models?", "Who are the providers?", "Where do the models run?",
			"Who owns the GPUs?"},
			"A provider is someone with a GPU who runs the agent and serves models through this service."},
		{[]string{"How do I become a provider?", "Can I become a provider?", "How do I sell my GPU?", "How can I earn money?",
			"I have a GPU. What now?"},
			"Run the provider agent beside your engine. It dials out to the service, so you need no public address."},
		{[]string{"How are providers paid?", "What does a provider earn?", "When are providers paid?",
			"How do payouts work?"},
			"Each provider is credited per token at the payout price of the model, and payouts are settled in batches."},
		{[]string{"What is an API key?", "Do I need a key?", "What is a consumer key?", "How do I log in?"},
			"A key names your account. Send it in the Authorization header, and keep it secret."},
		{[]string{"Which models are there?", "What models do you have?", "List the models.", "Which models can I use?",
			"How do I see the models?"}, "Ask GET /v1/models. It lists the models that a provider serves right now."},
		{[]string{"Why do you answer?", "Why am I talking to you?", "Why is the model so small?",
			"Why are your answers so bad?", "Why are you here?"},
			"No larger engine was found on this machine, so the built-in tiny model answers."},
		{[]string{"How do I get a bigger model?", "How do I use a real model?", "Can I use a better model?",
			"How do I run a larger model?", "I want a big model."},
			"Start an engine such as vLLM, SGLang or Ollama, and point the provider agent at it. " +
				"Then it answers instead of me."},
		{[]string{"Is streaming supported?", "Can you stream?", "How do I stream?", "Does it stream?"},
			"Yes. Send stream: true, and the answer comes in small pieces as it is written."},
		{[]string{"What is inference?", "What does inference mean?", "Explain inference.", "Define inference."},
			"Inference is running a trained model: text goes in, and the model works out what comes next."},
		{[]string{"What is a GPU?", "What does GPU mean?", "Explain GPUs.", "Define GPU."},
			"A GPU is a processor that does many sums at once. Large models need one. I do not."},
		{[]string{"What is an API?", "What does API mean?", "Define API.", "Explain API."},
			"An API is a door for programs: they send a request, and they get an answer in a fixed form."},
		{[]string{"How do you check providers?", "How are providers verified?", "Can a provider cheat?",
			"How do I know the model is real?"},
			"The service sends providers test questions and compares the answers. " +
				"Providers that cheat lose trust and collateral."},
		{[]string{"What if a provider fails?", "What happens when a provider fails?", "What if a provider goes away?",
			"Is there failover?"}, "Until the first words arrive, a failed request moves on to the next provider."},
		{[]string{"What is the Token Plan?", "Is there a subscription?", "What is the plan?", "Is there a monthly plan?"},
			"The Token Plan is a monthly subscription that includes tokens. Without it, you pay from your credit."},
		{[]string{"What is a language model?", "What is an LLM?", "Define language model.", "Explain language models.",
			"What does LLM mean?"}, "A language model guesses what text comes next. A large one guesses well. I am a tiny one."},
		{[]string{"What is temperature?", "What does temperature do?", "Explain temperature.",
			"What is the temperature setting?"},
			"Temperature sets how boldly a model guesses: 0 always takes the likeliest byte, 1 follows the odds."},
		{[]string{"What is a seed?", "What does seed do?", "Explain the seed.", "What is the seed for?"},
			"A seed fixes the dice. The same seed and the same prompt give the same answer."},
	}
}
