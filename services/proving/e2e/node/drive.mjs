// Carries out orders with one SDK: a JSON object a line comes in, and for each
// go out events ("content" once the first text has come, "left" once the SDK
// was told to hang up) and at last its outcome. sdk_driver_test.go has both forms.
import { createInterface } from "node:readline";

const official = async (name) => {
  const { default: OpenAI, toFile } = await import(name);
  return (await import("./openai.mjs")).over(OpenAI, toFile);
};
const sdks = {
  "openai-4": () => official("openai4"),
  "openai-5": () => official("openai5"),
  "openai-6": () => official("openai"),
  "ai-sdk": () => import("./ai.mjs"),
  langchain: () => import("./langchain.mjs"),
};

const say = (line) => process.stdout.write(JSON.stringify(line) + "\n");

// A promise nobody awaits rejects beside the error that the SDK raises; that
// one is what counts.
process.on("unhandledRejection", () => {});

const sdk = await sdks[process.argv[2]]();
for await (const line of createInterface({ input: process.stdin })) {
  const order = JSON.parse(line);
  const out = { text: "", chunks: 0, usages: 0 };
  const controller = new AbortController();
  let begun = false;
  // took notes a piece of text, and hangs up at the first one if that is the order.
  const took = (text) => {
    out.text += text;
    if (!text || begun) return;
    begun = true;
    say({ event: "content" });
    if (!order.hang_up) return;
    controller.abort();
    say({ event: "left" });
  };
  try {
    await sdk[order.op](order, out, { took, signal: controller.signal });
  } catch (e) {
    if (!(order.hang_up && begun)) out.error = sdk.failure(e);
  }
  say({ outcome: out });
}
