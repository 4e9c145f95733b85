// Drives the marketplace with the official SDK for node, as a user would, and
// exits non-zero with a line for each thing that is not as it should be.
import OpenAI from "openai";

const { SVC_BASE_URL, SVC_API_KEY, SVC_MODEL } = process.env;
const client = new OpenAI({ baseURL: `${SVC_BASE_URL}/v1`, apiKey: SVC_API_KEY });
const body = { model: SVC_MODEL, max_tokens: 64, messages: [{ role: "user", content: "Hello! Who are you?" }] };
const faults = [];
const expect = (what, ok, seen) => ok || faults.push(`${what}: ${JSON.stringify(seen)}`);

const { data, response, request_id } = await client.chat.completions.create(body).withResponse();
expect("a whole answer has content", data.choices[0].message.content, data);
expect("refusal is there and null", data.choices[0].message.refusal === null, data.choices[0]);
expect("usage adds up", data.usage.total_tokens === data.usage.prompt_tokens + data.usage.completion_tokens, data.usage);
expect("the request id reaches the SDK", request_id && request_id === response.headers.get("x-svc-request-id"), request_id);

let text = "", usage = 0, finish = null;
for await (const chunk of await client.chat.completions.create({ ...body, stream: true })) {
  expect("no chunk without choices", chunk.choices.length === 1, chunk);
  usage += chunk.usage ? 1 : 0;
  text += chunk.choices[0]?.delta?.content ?? "";
  finish = chunk.choices[0]?.finish_reason ?? finish;
}
expect("a stream has text and an end", text && finish, { text, finish });
expect("usage that nobody asked for", usage === 0, usage);

let last;
for await (const chunk of await client.chat.completions.create({ ...body, stream: true, stream_options: { include_usage: true } })) last = chunk;
expect("usage that was asked for comes last", last.choices.length === 0 && last.usage.total_tokens > 0, last);

const failing = async (what, call, cls, code) => {
  try {
    await call();
    faults.push(`${what}: no error`);
  } catch (e) {
    expect(what, e instanceof cls && e.code === code, { name: e.constructor.name, status: e.status, code: e.code });
  }
};
const other = (apiKey) => new OpenAI({ baseURL: `${SVC_BASE_URL}/v1`, apiKey });
await failing("a made-up key", () => other("sk-svc-nonsense").chat.completions.create(body), OpenAI.AuthenticationError, "invalid_api_key");
await failing("an unknown model", () => client.chat.completions.create({ ...body, model: "no/such" }), OpenAI.NotFoundError, "model_not_found");
await failing("a bad parameter", () => client.chat.completions.create({ ...body, n: 1000000 }), OpenAI.BadRequestError, "invalid_value");
const model = await client.models.retrieve(SVC_MODEL);
expect("a model with a slash is found", model.id === SVC_MODEL, model);

for (const f of faults) console.error(f);
process.exit(faults.length ? 1 : 0);
