// LangChain's chat model over the official SDK.
import { AIMessage, HumanMessage, SystemMessage, ToolMessage } from "@langchain/core/messages";
import { ChatOpenAI, OpenAI, OpenAIEmbeddings } from "@langchain/openai";

const model = (order) => {
  const chat = new ChatOpenAI({
    model: order.model,
    apiKey: order.key,
    maxTokens: order.max_tokens || undefined,
    temperature: order.temperature,
    topP: order.top_p,
    ...(order.penalties && { frequencyPenalty: 0, presencePenalty: 0 }),
    ...(order.seed && { modelKwargs: { seed: order.seed } }),
    ...(order.top_logprobs && { logprobs: true, topLogprobs: order.top_logprobs }),
    streamUsage: order.usage,
    configuration: { baseURL: `${order.base}/v1`, defaultHeaders: order.headers },
    ...(order.retries < 0 ? {} : { maxRetries: order.retries }),
  });
  if (order.tool) return chat.bindTools([{ type: "function", function: order.tool }]);
  return order.format ? chat.withConfig({ response_format: order.format }) : chat;
};

const note = (out, usage) => {
  if (!usage?.total_tokens) return;
  out.usages++;
  out.usage = { prompt_tokens: usage.input_tokens, completion_tokens: usage.output_tokens, total_tokens: usage.total_tokens };
};

const roles = { system: SystemMessage, user: HumanMessage, assistant: AIMessage };
const conversation = (order, message) => {
  const before = (order.before ?? []).map(({ role, content }) => new roles[role](content));
  const asked = [...before, new HumanMessage(order.prompt)];
  if (!message) return asked;
  const reply = new ToolMessage({ tool_call_id: message.tool_calls[0].id, content: order.reply });
  return [...asked, new AIMessage({ content: "", tool_calls: message.tool_calls }), reply];
};
const called = ({ name, args }) => ({ name, arguments: JSON.stringify(args) });

export const chat = async (order, out, { took, signal }) => {
  let message = await model(order).invoke(conversation(order), { signal });
  if (order.tool) {
    out.call = called(message.tool_calls[0]);
    message = await model(order).invoke(conversation(order, message), { signal });
  }
  took(message.content);
  out.finish = message.response_metadata.finish_reason;
  note(out, message.usage_metadata);
};

const read = async (order, out, { took, signal }, before) => {
  let message;
  for await (const chunk of await model(order).stream(conversation(order, before), { signal })) {
    out.chunks++;
    out.finish = chunk.response_metadata.finish_reason ?? out.finish;
    note(out, chunk.usage_metadata);
    took(chunk.content);
    message = message ? message.concat(chunk) : chunk;
  }
  return message;
};

export const stream = async (order, out, how) => {
  const message = await read(order, out, how);
  if (!order.tool) return;
  out.call = called(message.tool_calls[0]);
  await read(order, out, how, message);
};

const access = (order) => ({ model: order.model, apiKey: order.key, configuration: { baseURL: `${order.base}/v1` } });

export const complete = async (order, out, { took }) => {
  const { generations } = await new OpenAI({ ...access(order), maxTokens: order.max_tokens }).generate([order.prompt]);
  took(generations[0][0].text);
  out.finish = generations[0][0].generationInfo.finishReason;
};

export const complete_stream = async (order, out, { took }) => {
  for await (const text of await new OpenAI({ ...access(order), maxTokens: order.max_tokens }).stream(order.prompt)) {
    out.chunks++;
    took(text);
  }
  out.finish = "stop"; // of which a stream of plain text tells nothing
};

export const embed = async (order, out) => {
  out.vectors = await new OpenAIEmbeddings(access(order)).embedDocuments([order.prompt, order.reply]);
};

export const failure = (e) => ({
  class: e.constructor.name, status: e.status, code: e.code, param: e.param, message: e.message, request_id: e.requestID,
});
