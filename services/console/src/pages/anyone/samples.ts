// Code to call a model, in four languages, with the site's own address.

export interface Sample {
  language: string;
  code: string;
}

export interface SampleWish {
  /** The origin of the site. */
  base: string;
  model: string;
  /** llm, multimodal, embedding, image or audio. */
  category: string;
  stream: boolean;
}

/** The variable of the environment that all samples read the key from. */
export const keyVariable = 'SVC_API_KEY';

/** Code for one request of the model's category. Only chats are streamed. */
export function samples(wish: SampleWish): Sample[] {
  switch (wish.category) {
    case 'embedding':
      return embeddings(wish);
    case 'image':
      return images(wish);
    case 'audio':
      return transcriptions(wish);
    default:
      return chats(wish);
  }
}

const text = (value: string) => JSON.stringify(value); // a literal in JSON, JavaScript, Python and Go alike

/** A text within single quotes of a shell. */
function shell(value: string): string {
  return `'${value.replaceAll("'", `'\\''`)}'`;
}

function curl(base: string, path: string, body: unknown, flags = ''): string {
  return `curl ${flags}${base}/v1/${path} \\
  -H "Authorization: Bearer $${keyVariable}" \\
  -H "Content-Type: application/json" \\
  -d ${shell(JSON.stringify(body))}`;
}

function python(base: string, call: string): string {
  return `import os
from openai import OpenAI

client = OpenAI(base_url=${text(`${base}/v1`)}, api_key=os.environ["${keyVariable}"])

${call}`;
}

function javascript(base: string, call: string, imports = ''): string {
  return `${imports}import OpenAI from 'openai';

const client = new OpenAI({ baseURL: ${text(`${base}/v1`)}, apiKey: process.env.${keyVariable} });

${call}`;
}

/** A program in Go that needs the standard library alone. */
function go(
  base: string,
  path: string,
  body: unknown,
  read = 'io.Copy(os.Stdout, resp.Body)',
  imports: string[] = [],
): string {
  const names = ['fmt', 'io', 'net/http', 'os', 'strings', ...imports]
    .filter((name) => name !== 'io' || /\bio\./.test(read))
    .sort();
  return `package main

import (
${names.map((name) => `\t"${name}"`).join('\n')}
)

func main() {
	body := strings.NewReader(${goText(JSON.stringify(body))})
	req, err := http.NewRequest("POST", ${text(`${base}/v1/${path}`)}, body)
	if err != nil {
		panic(err)
	}
	req.Header.Set("Authorization", "Bearer "+os.Getenv("${keyVariable}"))
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		panic(err)
	}
	defer resp.Body.Close()
	fmt.Fprintln(os.Stderr, resp.Status, "request", resp.Header.Get("X-Svc-Request-Id"))
	${read}
}`;
}

function goText(value: string): string {
  return value.includes('`') ? text(value) : `\`${value}\``;
}

const goStream = `lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		data, found := strings.CutPrefix(lines.Text(), "data: ")
		if !found || data == "[DONE]" {
			continue
		}
		fmt.Println(data) // one chunk, as JSON
	}`;

function chats({ base, model, stream }: SampleWish): Sample[] {
  const messages = [{ role: 'user', content: 'Hello' }];
  const body = stream ? { model, messages, stream } : { model, messages };
  const pythonCall = stream
    ? `stream = client.chat.completions.create(
    model=${text(model)},
    messages=[{"role": "user", "content": "Hello"}],
    stream=True,
)
for chunk in stream:
    if chunk.choices:
        print(chunk.choices[0].delta.content or "", end="", flush=True)`
    : `answer = client.chat.completions.create(
    model=${text(model)},
    messages=[{"role": "user", "content": "Hello"}],
)
print(answer.choices[0].message.content)
print("request", answer._request_id)`;
  const javascriptCall = stream
    ? `const stream = await client.chat.completions.create({
  model: ${text(model)},
  messages: [{ role: 'user', content: 'Hello' }],
  stream: true,
});
for await (const chunk of stream) {
  process.stdout.write(chunk.choices[0]?.delta?.content ?? '');
}`
    : `const answer = await client.chat.completions.create({
  model: ${text(model)},
  messages: [{ role: 'user', content: 'Hello' }],
});
console.log(answer.choices[0].message.content);
console.log('request', answer._request_id);`;
  return [
    { language: 'curl', code: curl(base, 'chat/completions', body, stream ? '-N ' : '') },
    { language: 'Python', code: python(base, pythonCall) },
    { language: 'JavaScript', code: javascript(base, javascriptCall) },
    {
      language: 'Go',
      code: stream ? go(base, 'chat/completions', body, goStream, ['bufio']) : go(base, 'chat/completions', body),
    },
  ];
}

function embeddings({ base, model }: SampleWish): Sample[] {
  const body = { model, input: 'Hello' };
  return [
    { language: 'curl', code: curl(base, 'embeddings', body) },
    {
      language: 'Python',
      code: python(
        base,
        `answer = client.embeddings.create(model=${text(model)}, input="Hello")\nprint(len(answer.data[0].embedding))`,
      ),
    },
    {
      language: 'JavaScript',
      code: javascript(
        base,
        `const answer = await client.embeddings.create({ model: ${text(model)}, input: 'Hello' });
console.log(answer.data[0].embedding.length);`,
      ),
    },
    { language: 'Go', code: go(base, 'embeddings', body) },
  ];
}

function images({ base, model }: SampleWish): Sample[] {
  const body = { model, prompt: 'A lighthouse' };
  return [
    { language: 'curl', code: curl(base, 'images/generations', body) },
    {
      language: 'Python',
      code: python(
        base,
        `import base64

answer = client.images.generate(model=${text(model)}, prompt="A lighthouse")
with open("lighthouse.png", "wb") as file:
    file.write(base64.b64decode(answer.data[0].b64_json))`,
      ),
    },
    {
      language: 'JavaScript',
      code: javascript(
        base,
        `const answer = await client.images.generate({ model: ${text(model)}, prompt: 'A lighthouse' });
fs.writeFileSync('lighthouse.png', Buffer.from(answer.data[0].b64_json, 'base64'));`,
        `import fs from 'node:fs';\n`,
      ),
    },
    { language: 'Go', code: go(base, 'images/generations', body) },
  ];
}

function transcriptions({ base, model }: SampleWish): Sample[] {
  return [
    {
      language: 'curl',
      code: `curl ${base}/v1/audio/transcriptions \\
  -H "Authorization: Bearer $${keyVariable}" \\
  -F model=${shell(model)} \\
  -F file=@speech.mp3`,
    },
    {
      language: 'Python',
      code: python(
        base,
        `with open("speech.mp3", "rb") as file:
    answer = client.audio.transcriptions.create(model=${text(model)}, file=file)
print(answer.text)`,
      ),
    },
    {
      language: 'JavaScript',
      code: javascript(
        base,
        `const answer = await client.audio.transcriptions.create({
  model: ${text(model)},
  file: fs.createReadStream('speech.mp3'),
});
console.log(answer.text);`,
        `import fs from 'node:fs';\n`,
      ),
    },
    { language: 'Go', code: goUpload(base, model) },
  ];
}

function goUpload(base: string, model: string): string {
  return `package main

import (
	"bytes"
	"io"
	"mime/multipart"
	"net/http"
	"os"
)

func main() {
	speech, err := os.ReadFile("speech.mp3")
	if err != nil {
		panic(err)
	}
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	form.WriteField("model", ${text(model)})
	part, _ := form.CreateFormFile("file", "speech.mp3") // a buffer takes all that is written
	part.Write(speech)
	form.Close()
	req, err := http.NewRequest("POST", ${text(`${base}/v1/audio/transcriptions`)}, &body)
	if err != nil {
		panic(err)
	}
	req.Header.Set("Authorization", "Bearer "+os.Getenv("${keyVariable}"))
	req.Header.Set("Content-Type", form.FormDataContentType())
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		panic(err)
	}
	defer resp.Body.Close()
	io.Copy(os.Stdout, resp.Body)
}`;
}
