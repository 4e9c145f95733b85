// The router's reasons to pass a provider over, in words.

const words: Record<string, string> = {
  not_active: 'Only active providers get requests.',
  draining: 'The machine said that it is about to leave.',
  not_offered: 'The machine does not offer the model.',
  unhealthy: 'The machine reports that the model is not healthy.',
  window_too_small: 'The request did not fit into the model’s window on the machine.',
  body_too_large: 'The request was larger than the agent accepts.',
  capability_missing: 'The request needed something that the agent does not declare.',
  full: 'The machine was serving as many requests as it can.',
  breaker_open: 'Requests failed one after the other, so that the machine is left out for a while.',
  not_verified: 'The verifier has shut the model: it gets no requests until it passes.',
  degraded: 'The last verification found something, or the answers were worse than others’.',
  second_tier: 'Agents that are connected are asked first; an endpoint gets what they cannot take.',
  not_wanted: 'The request named other providers, or wanted what the machine does not have.',
  already_failed: 'The request had failed there before.',
};

/** What a reason means. A later router may know reasons that have no words here. */
export function reasonWords(reason: string): string {
  return words[reason] ?? 'The router passed the machine over.';
}
