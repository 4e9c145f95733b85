// The AI SDK over its provider for OpenAI-compatible services.
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { embedMany, generateImage, generateText, jsonSchema, stepCountIs, streamText, tool, Output } from "ai";

globalThis.AI_SDK_LOG_WARNINGS = false;

const provider = ({ base, key, usage, headers }) =>
  createOpenAICompatible({ name: "market", baseURL: `${base}/v1`, apiKey: key, headers, includeUsage: usage, supportsStructuredOutputs: true });

const question = (order, signal) => ({
  model: order.op.startsWith("complete") ? provider(order).completionModel(order.model) : provider(order).chatModel(order.model),
  ...(order.max_tokens && { maxOutputTokens: order.max_tokens }),
  ...(order.before ? { messages: [...order.before, { role: "user", content: order.prompt }], allowSystemInMessages: true } : { prompt: order.prompt }),
  temperature: order.temperature,
  topP: order.top_p,
  seed: order.seed,
  ...(order.penalties && { frequencyPenalty: 0, presencePenalty: 0 }),
  abortSignal: signal,
  ...(order.retries < 0 ? {} : { maxRetries: order.retries }),
  ...(order.tool && {
    tools: {
      [order.tool.name]: tool({
        description: order.tool.description,
        inputSchema: jsonSchema(order.tool.parameters),
        execute: async () => order.reply,
      }),
    },
    stopWhen: stepCountIs(2),
  }),
  ...(order.format && {
    output: order.format.type === "json_object" ? Output.json() : Output.object({ schema: jsonSchema(order.format.json_schema.schema), name: order.format.json_schema.name }),
  }),
});

const note = (out, { inputTokens, outputTokens, totalTokens }) => {
  if (!totalTokens) return;
  out.usages++;
  out.usage = { prompt_tokens: inputTokens, completion_tokens: outputTokens, total_tokens: totalTokens };
};

// finishes are the AI SDK's names for OpenAI's reasons.
const finishes = { "tool-calls": "tool_calls", "content-filter": "content_filter" };
const finish = (reason) => finishes[reason] ?? reason;
const called = ({ toolName, input }) => ({ name: toolName, arguments: JSON.stringify(input) });

export const chat = async (order, out, { took, signal }) => {
  const answer = await generateText(question(order, signal));
  took(answer.text);
  const call = answer.steps[0].toolCalls[0];
  if (call) out.call = called(call);
  out.finish = finish(answer.finishReason);
  out.request_id = answer.response.headers["x-request-id"];
  note(out, answer.usage);
};

export const stream = async (order, out, { took, signal }) => {
  const answer = streamText({ ...question(order, signal), onError: () => {} });
  for await (const part of answer.fullStream) {
    out.chunks++;
    if (part.type === "text-delta") took(part.text);
    if (part.type === "tool-call") out.call = called(part);
    if (part.type === "finish-step") {
      out.finish = finish(part.finishReason);
      out.request_id = part.response.headers?.["x-request-id"];
      note(out, part.usage);
    }
    if (part.type === "error") throw part.error;
  }
};

export const complete = chat;
export const complete_stream = stream;

export const embed = async (order, out) => {
  const { embeddings } = await embedMany({ model: provider(order).embeddingModel(order.model), values: [order.prompt, order.reply] });
  out.vectors = embeddings;
};

export const image = async (order, out) => {
  const { images } = await generateImage({ model: provider(order).imageModel(order.model), prompt: order.prompt, n: 2 });
  out.images = images.map((i) => i.base64);
};

export const failure = (e) => {
  const last = e.lastError ?? e; // of several attempts
  const said = last.data?.error ?? {};
  return {
    class: last.name ?? typeof last, status: last.statusCode, code: said.code, param: said.param, message: last.message ?? String(last),
    request_id: last.responseHeaders?.["x-request-id"],
  };
};
