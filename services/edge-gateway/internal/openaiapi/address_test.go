package openaiapi

import (
	"strings"
	"testing"

	"svc.internal/pkg/fault"
)

// F11: an engine fetches what a content part points at, from its owner's network.
func TestNoAddressInAPartLeadsIntoAProvidersNetwork(t *testing.T) {
	const at = "messages[0].content[0]."
	for _, address := range []string{
		"http://127.0.0.1/x", "http://localhost/x", "http://10.0.0.7/x", "http://169.254.169.254/latest/meta-data/",
		"http://metadata.google.internal/", "http://[::1]/", "http://[::ffff:10.0.0.1]/", "http://[64:ff9b::a00:1]/",
		"http://127.1/", "http://0x7f.1/", "http://2130706433/", "http://0177.0.0.1/", "http://100.64.0.1/",
		"http://224.0.0.1/",
		"http://0.0.0.0/", "http://engine:8000/", "http://x.org:11434/", "http://x.org@10.0.0.1/", `http://x.org\\@10.0.0.1/`,
		`\u0068ttp://127.0.0.1/`, "file:///etc/passwd", "//10.0.0.1/x",
	} {
		for part, param := range map[string]string{
			image(address): "image_url.url",
			`{"type":"image_url","image_url":{"url":"https://x.org/a.png","thumb_url":"` + address +
				`"}}`: "image_url.thumb_url",
			`{"type":"video_url","video_url":{"url":"` + address + `"}}`: "video_url.url",
			`{"type":"video_url","video_url":"` + address + `"}`:         "video_url",
			`{"type":"video","frames":[{"deep":{"frame_urls":["https://x.org","` + address +
				`"]}}]}`: "frames.deep.frame_urls",
			`{"type":"text","text":"x","VIDEO_URL":{"URL":"` + address + `"}}`:         "*.*",
			`{"type":"file","file":{"file_uri":"` + address + `","file_data":"AAAA"}}`: "file.file_uri",
		} {
			_, err := Parse(Chat, []byte(withPart(part)))
			f, ok := fault.As(err)
			switch {
			case !ok:
				t.Errorf("%s: got the error %v, want a fault", part, err)
			case f.Reason != fault.InvalidValue:
				t.Errorf("%s: f.Reason: got %q, want %q", part, f.Reason, fault.InvalidValue)
			case f.Param != at+param:
				t.Errorf("%s: f.Param: got %q, want %q", part, f.Param, at+param)
			case strings.Contains(f.Message, address):
				t.Errorf("%s: f.Message: got %q, want it without %q", part, f.Message, address)
			}
		}
	}
	for part, param := range map[string]string{
		`{"type":"file","file":{"file_data":"http://10.0.0.1/x.pdf"}}`:                                "file.file_data",
		`{"type":"input_audio","input_audio":{"data":"file:///etc/passwd"}}`:                          "input_audio.data",
		`{"type":"input_audio","input_audio":{"data":"\u0066ile:///etc/passwd"}}`:                     "input_audio.data",
		`{"type":"x","x_url":"https://x.org/` + strings.Repeat("x", MaxImageURLBytes) + `"}`:          "x_url",
		`{"type":"x","x_url":"data:video/mp4;base64,` + strings.Repeat("A", MaxImageDataBytes) + `"}`: "x_url",
		`{"type":"x","x_url":"` + strings.Repeat("A", 2*MaxImageDataBytes+1) + `"}`:                   "x_url",
		`{"type":"x","` + "u\u017f" + `":"","x_url` + "\u017f" + `":["http://10.0.0.1"]}`:             "*",
		`{"type":"x","a":` + strings.Repeat(`{"a":`, 50) + `{"url":"http://10.0.0.1"}` + strings.Repeat(`}`,
			51): strings.Repeat("a.", 51) + "url",
	} {
		_, err := Parse(Chat, []byte(withPart(part)))
		switch f, ok := fault.As(err); {
		case !ok:
			t.Errorf("%.120s: got the error %v, want a fault", part, err)
		case f.Reason != fault.InvalidValue:
			t.Errorf("%.120s: f.Reason: got %q, want %q", part, f.Reason, fault.InvalidValue)
		case f.Param != at+param:
			t.Errorf("%.120s: f.Param: got %q, want %q", part, f.Param, at+param)
		}
	}
}

// What an agent may have to fetch, or may have to keep from its engine, is known.
func TestMediaByAddressAndMembersOfEnginesAreNoted(t *testing.T) {
	for body, want := range map[string][2]bool{
		withPart(image("https://x.org/a.png")):                                               {true, false},
		withPart(image("http://x.org/a.png")):                                                {true, false},
		withPart(`{"type":"video_url","video_url":"https://x.org/a.mp4"}`):                   {true, false},
		withPart(`{"type":"input_audio","input_audio":{"data":"https://x.org/a.wav"}}`):      {true, false},
		withPart(image("data:image/png;base64,AAAA")):                                        {false, false},
		withPart(`{"type":"text","text":"see https://x.org/a.png"}`):                         {false, false},
		`{"model":"m","messages":[{"role":"user","content":"x"}],"seed":1,"tools":[]}`:       {false, false},
		`{"model":"m","messages":[{"role":"user","content":"x"}],"top_k":1}`:                 {false, true},
		`{"model":"m","messages":[{"role":"user","content":"x"}],"lora_request":null}`:       {false, false},
		`{"model":"m","messages":[{"role":"user","content":"x"}],"chat_template":"{{ x }}"}`: {false, true},
	} {
		req, err := Parse(Chat, []byte(body))
		if err != nil {
			t.Errorf("%s: %v", body, err)
			continue
		}
		if got := [2]bool{req.NamesMedia, req.EngineMembers}; got != want {
			t.Errorf("%s: media and members: got %v, want %v", body, got, want)
		}
	}
}

// A part of a type that only the engine knows passes byte for byte, and counts.
func TestAPartThatOnlyTheEngineKnowsPasses(t *testing.T) {
	base, err := Parse(Chat, []byte(withPart(`{"type":"video_url"}`)))
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{
		`{"type":"video_url","video_url":{"url":"https://videos.org:8443/a.mp4","fps":2}}`,
		`{"type":"video_url","video_url":{"url":"data:video/mp4;base64,AAAA"},"note":"http://10.0.0.1 is text"}`,
		`{"type":"audio_url","audio_url":"https://8.8.8.8/a.wav","url":"","uri":null,"urls":[1,true]}`,
		`{"type":"image_url","image_url":{"url":"https://x.org/a.png","detail":"low","min_pixels":[1,2]}}`,
		`{"type":"input_audio","input_audio":{"data":"/9j/4AAQSkZJRg==","format":"wav"}}`,
		`{"type":"file","file":{"file_data":"data:application/pdf;base64,AAAA","filename":"a.pdf"}}`,
		`{"video":{"url":"https://x.org/a.mp4"},"type":"video"}`,
	} {
		body := withPart(part)
		r, err := Parse(Chat, []byte(body))
		if err != nil {
			t.Errorf("%s: %v", part, err)
			continue
		}
		if out := r.Body("m", 7).Body; string(out) != `{"max_tokens":7,`+body[1:] {
			t.Errorf("%s: out: got %q, want %q", part, string(out), `{"max_tokens":7,`+body[1:])
		}
		if r.PromptTokens <= base.PromptTokens {
			t.Errorf("%s is free: got %d, want more than %d", part, r.PromptTokens, base.PromptTokens)
		}
	}
}
