var e=`SVC_API_KEY`;function t(e){switch(e.category){case`embedding`:return d(e);case`image`:return f(e);case`audio`:return p(e);default:return u(e)}}var n=e=>JSON.stringify(e);function r(e){return`'${e.replaceAll(`'`,`'\\''`)}'`}function i(t,n,i,a=``){return`curl ${a}${t}/v1/${n} \\
  -H "Authorization: Bearer $${e}" \\
  -H "Content-Type: application/json" \\
  -d ${r(JSON.stringify(i))}`}function a(t,r){return`import os
from openai import OpenAI

client = OpenAI(base_url=${n(`${t}/v1`)}, api_key=os.environ["${e}"])

${r}`}function o(t,r,i=``){return`${i}import OpenAI from 'openai';

const client = new OpenAI({ baseURL: ${n(`${t}/v1`)}, apiKey: process.env.${e} });

${r}`}function s(t,r,i,a=`io.Copy(os.Stdout, resp.Body)`,o=[]){return`package main

import (
${[`fmt`,`io`,`net/http`,`os`,`strings`,...o].filter(e=>e!==`io`||/\bio\./.test(a)).sort().map(e=>`\t"${e}"`).join(`
`)}
)

func main() {
	body := strings.NewReader(${c(JSON.stringify(i))})
	req, err := http.NewRequest("POST", ${n(`${t}/v1/${r}`)}, body)
	if err != nil {
		panic(err)
	}
	req.Header.Set("Authorization", "Bearer "+os.Getenv("${e}"))
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		panic(err)
	}
	defer resp.Body.Close()
	fmt.Fprintln(os.Stderr, resp.Status, "request", resp.Header.Get("X-Svc-Request-Id"))
	${a}
}`}function c(e){return e.includes("`")?n(e):`\`${e}\``}var l=`lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		data, found := strings.CutPrefix(lines.Text(), "data: ")
		if !found || data == "[DONE]" {
			continue
		}
		fmt.Println(data) // one chunk, as JSON
	}`;function u({base:e,model:t,stream:r}){let c=[{role:`user`,content:`Hello`}],u=r?{model:t,messages:c,stream:r}:{model:t,messages:c},d=r?`stream = client.chat.completions.create(
    model=${n(t)},
    messages=[{"role": "user", "content": "Hello"}],
    stream=True,
)
for chunk in stream:
    if chunk.choices:
        print(chunk.choices[0].delta.content or "", end="", flush=True)`:`answer = client.chat.completions.create(
    model=${n(t)},
    messages=[{"role": "user", "content": "Hello"}],
)
print(answer.choices[0].message.content)
print("request", answer._request_id)`,f=r?`const stream = await client.chat.completions.create({
  model: ${n(t)},
  messages: [{ role: 'user', content: 'Hello' }],
  stream: true,
});
for await (const chunk of stream) {
  process.stdout.write(chunk.choices[0]?.delta?.content ?? '');
}`:`const answer = await client.chat.completions.create({
  model: ${n(t)},
  messages: [{ role: 'user', content: 'Hello' }],
});
console.log(answer.choices[0].message.content);
console.log('request', answer._request_id);`;return[{language:`curl`,code:i(e,`chat/completions`,u,r?`-N `:``)},{language:`Python`,code:a(e,d)},{language:`JavaScript`,code:o(e,f)},{language:`Go`,code:r?s(e,`chat/completions`,u,l,[`bufio`]):s(e,`chat/completions`,u)}]}function d({base:e,model:t}){let r={model:t,input:`Hello`};return[{language:`curl`,code:i(e,`embeddings`,r)},{language:`Python`,code:a(e,`answer = client.embeddings.create(model=${n(t)}, input="Hello")\nprint(len(answer.data[0].embedding))`)},{language:`JavaScript`,code:o(e,`const answer = await client.embeddings.create({ model: ${n(t)}, input: 'Hello' });
console.log(answer.data[0].embedding.length);`)},{language:`Go`,code:s(e,`embeddings`,r)}]}function f({base:e,model:t}){let r={model:t,prompt:`A lighthouse`};return[{language:`curl`,code:i(e,`images/generations`,r)},{language:`Python`,code:a(e,`import base64

answer = client.images.generate(model=${n(t)}, prompt="A lighthouse")
with open("lighthouse.png", "wb") as file:
    file.write(base64.b64decode(answer.data[0].b64_json))`)},{language:`JavaScript`,code:o(e,`const answer = await client.images.generate({ model: ${n(t)}, prompt: 'A lighthouse' });
fs.writeFileSync('lighthouse.png', Buffer.from(answer.data[0].b64_json, 'base64'));`,`import fs from 'node:fs';
`)},{language:`Go`,code:s(e,`images/generations`,r)}]}function p({base:t,model:i}){return[{language:`curl`,code:`curl ${t}/v1/audio/transcriptions \\
  -H "Authorization: Bearer $${e}" \\
  -F model=${r(i)} \\
  -F file=@speech.mp3`},{language:`Python`,code:a(t,`with open("speech.mp3", "rb") as file:
    answer = client.audio.transcriptions.create(model=${n(i)}, file=file)
print(answer.text)`)},{language:`JavaScript`,code:o(t,`const answer = await client.audio.transcriptions.create({
  model: ${n(i)},
  file: fs.createReadStream('speech.mp3'),
});
console.log(answer.text);`,`import fs from 'node:fs';
`)},{language:`Go`,code:m(t,i)}]}function m(t,r){return`package main

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
	form.WriteField("model", ${n(r)})
	part, _ := form.CreateFormFile("file", "speech.mp3") // a buffer takes all that is written
	part.Write(speech)
	form.Close()
	req, err := http.NewRequest("POST", ${n(`${t}/v1/audio/transcriptions`)}, &body)
	if err != nil {
		panic(err)
	}
	req.Header.Set("Authorization", "Bearer "+os.Getenv("${e}"))
	req.Header.Set("Content-Type", form.FormDataContentType())
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		panic(err)
	}
	defer resp.Body.Close()
	io.Copy(os.Stdout, resp.Body)
}`}export{t as n,e as t};