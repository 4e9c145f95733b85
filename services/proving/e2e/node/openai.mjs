// The official SDK, whatever its major version.
export const over = (OpenAI, toFile) => {
  const client = ({ base, key, retries, headers }) =>
    new OpenAI({ baseURL: `${base}/v1`, apiKey: key, defaultHeaders: headers, ...(retries < 0 ? {} : { maxRetries: retries }) });
  // order.body is the call as somebody wrote it, in that order of members.
  const question = (order) => order.body ?? ({
    model: order.model,
    max_tokens: order.max_tokens,
    messages: [{ role: "user", content: order.prompt }],
    ...(order.tool && { tools: [{ type: "function", function: order.tool }] }),
    ...(order.format && { response_format: order.format }),
  });
  const answered = (body, message, reply) => ({
    ...body,
    messages: [...body.messages, message, { role: "tool", tool_call_id: message.tool_calls[0].id, content: reply }],
  });
  const note = (out, usage) => {
    if (!usage) return;
    out.usages++;
    out.usage = usage;
  };

  const chat = async (order, out, { took, signal }) => {
    const api = client(order).chat.completions;
    let body = question(order);
    let { data, request_id } = await api.create(body, { signal }).withResponse();
    if (order.tool) {
      out.call = data.choices[0].message.tool_calls[0].function;
      ({ data, request_id } = await api.create(answered(body, data.choices[0].message, order.reply), { signal }).withResponse());
    }
    took(data.choices[0].message.content);
    Object.assign(out, { finish: data.choices[0].finish_reason, request_id });
    note(out, data.usage);
  };

  // read relays a stream and puts its message together.
  const read = async (stream, out, took) => {
    const message = { role: "assistant", content: null };
    for await (const chunk of stream) {
      out.chunks++;
      note(out, chunk.usage);
      const choice = chunk.choices[0];
      if (!choice) continue;
      for (const { id, type, function: f } of choice.delta.tool_calls ?? []) {
        message.tool_calls ??= [{ id, type, function: { name: f.name, arguments: "" } }];
        message.tool_calls[0].function.arguments += f.arguments ?? "";
      }
      out.finish = choice.finish_reason ?? out.finish;
      took(choice.delta.content ?? "");
    }
    return message;
  };

  const stream = async (order, out, { took, signal }) => {
    const api = client(order).chat.completions;
    const body = { ...question(order), stream: true, ...(order.usage && { stream_options: { include_usage: true } }) };
    const { data, request_id } = await api.create(body, { signal }).withResponse();
    out.request_id = request_id;
    const message = await read(data, out, took);
    if (!order.tool) return;
    out.call = message.tool_calls[0].function;
    await read(await api.create(answered(body, message, order.reply), { signal }), out, took);
  };

  const models = async (order, out) => {
    for await (const model of client(order).models.list()) if (model.id === order.model) out.text = model.id;
    if (out.text !== (await client(order).models.retrieve(order.model)).id) throw new Error("the list and the model differ");
  };

  const complete = async (order, out, { took, signal }) => {
    const body = { model: order.model, prompt: order.prompt, max_tokens: order.max_tokens };
    const answer = await client(order).completions.create(body, { signal });
    took(answer.choices[0].text);
    out.finish = answer.choices[0].finish_reason;
    note(out, answer.usage);
  };

  const complete_stream = async (order, out, { took, signal }) => {
    const body = { model: order.model, prompt: order.prompt, max_tokens: order.max_tokens, stream: true };
    for await (const chunk of await client(order).completions.create(body, { signal })) {
      out.chunks++;
      note(out, chunk.usage);
      out.finish = chunk.choices[0].finish_reason ?? out.finish;
      took(chunk.choices[0].text);
    }
  };

  const embed = async (order, out) => {
    const { data } = await client(order).embeddings.create({ model: order.model, input: [order.prompt, order.reply] });
    out.vectors = data.map((d) => d.embedding);
  };

  const image = async (order, out) => {
    const { data } = await client(order).images.generate({ model: order.model, prompt: order.prompt, n: 2, response_format: order.form });
    out.images = data.map((d) => d.url ?? d.b64_json);
  };

  const image_stream = async (order, out) => {
    out.images = [];
    for await (const event of await client(order).images.generate({ model: order.model, prompt: order.prompt, partial_images: 1, stream: true })) {
      out.chunks++;
      if (event.type === "image_generation.completed") out.images.push(event.b64_json);
    }
  };

  const spoken = async (order) => ({ model: order.model, file: await toFile(Buffer.from(order.audio, "base64"), "speech.wav") });

  const transcribe = async (order, out, { took }) => {
    const answer = await client(order).audio.transcriptions.create({ ...(await spoken(order)), response_format: order.form });
    took(answer.text ?? answer);
    out.seconds = answer.duration;
  };

  const transcribe_stream = async (order, out, { took }) => {
    for await (const event of await client(order).audio.transcriptions.create({ ...(await spoken(order)), stream: true })) {
      out.chunks++;
      if (event.type === "transcript.text.delta") took(event.delta);
      else if (event.type === "transcript.text.done") out.finish = event.text;
    }
  };

  const failure = (e) => ({
    class: e.constructor.name, status: e.status, code: e.code, param: e.param, message: e.message,
    request_id: e.requestID ?? e.request_id,
  });
  return { chat, stream, models, complete, complete_stream, embed, image, image_stream, transcribe, transcribe_stream, failure };
};
