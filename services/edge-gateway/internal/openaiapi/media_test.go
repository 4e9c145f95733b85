package openaiapi

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	pictures "image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"strings"
	"testing"
)

// painted gives a picture of a size in the formats that Go writes.
func painted(t testing.TB, w, h int) map[string][]byte {
	t.Helper()
	m := pictures.NewPaletted(pictures.Rect(0, 0, w, h), color.Palette{color.Black, color.White})
	var p, j, g bytes.Buffer
	for _, err := range []error{png.Encode(&p, m), jpeg.Encode(&j, m, nil), gif.Encode(&g, m, nil)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return map[string][]byte{"png": p.Bytes(), "jpeg": j.Bytes(), "gif": g.Bytes()}
}

// webp gives the heads of WebP files of a size: lossy, lossless, extended.
func webp(w, h int) map[string][]byte {
	le := binary.LittleEndian
	file := func(kind string, body []byte) []byte {
		b := append([]byte("RIFF\x00\x00\x00\x00WEBP"+kind+"\x00\x00\x00\x00"), body...)
		return append(b, make([]byte, 32)...)
	}
	lossy := le.AppendUint16(le.AppendUint16([]byte{0, 0, 0, 0x9d, 1, 0x2a}, uint16(w)), uint16(h))
	lossless := le.AppendUint32([]byte{0x2f}, uint32(w-1)|uint32(h-1)<<14)
	extended := append([]byte{0, 0, 0, 0}, le.AppendUint32(nil, uint32(w-1))[:3]...)
	return map[string][]byte{"lossy": file("VP8 ", lossy), "lossless": file("VP8L", lossless),
		"extended": file("VP8X", append(extended, le.AppendUint32(nil, uint32(h-1))[:3]...))}
}

func base64Of(data []byte) string { return base64.StdEncoding.EncodeToString(data) }

func TestAPicturesSizeIsReadFromItsOwnHead(t *testing.T) {
	for _, size := range [][2]int{{1, 1}, {31, 7}, {640, 480}, {1500, 1000}} {
		files := painted(t, size[0], size[1])
		for name, data := range webp(size[0], size[1]) {
			files[name] = data
		}
		// A camera puts a preview and colours before the size.
		head := append([]byte{0xff, 0xd8, 0xff, 0xe1, 0xff, 0xff}, make([]byte, 0xfffd)...)
		files["jpeg with a preview"] = append(append(head, 0xff, 0xff), files["jpeg"][2:]...)
		for name, data := range files {
			w, h, ok := pictureSize(encoded(base64Of(data)))
			if !ok || w != int64(size[0]) || h != int64(size[1]) {
				t.Errorf("%s: got %d x %d, %v; want %d x %d", name, w, h, ok, size[0], size[1])
			}
		}
	}
}

// A frame may reach beyond the screen of a GIF, and decoders make the picture as
// large.
func TestAGIFIsAsLargeAsItsFrame(t *testing.T) {
	data := painted(t, 300, 200)["gif"]
	copy(data[6:10], []byte{1, 0, 1, 0})
	if w, h, ok := pictureSize(encoded(base64Of(data))); !ok || w != 300 || h != 200 {
		t.Errorf("got %d x %d, %v; want 300 x 200", w, h, ok)
	}
}

func promptOf(t *testing.T, part string) *Request {
	t.Helper()
	r, err := Parse(Chat, []byte(withPart(part)))
	if err != nil {
		t.Fatalf("%.80s: %v", part, err)
	}
	return r
}

// An engine's honest count of a picture is within the bound, whichever family it
// is of, and the estimate of a large one is no small number.
func TestPicturesAreCountedByTheirSize(t *testing.T) {
	for _, c := range []struct {
		name         string
		w, h         int
		honest       []int64 // what engines make of it, by their own rules
		least, limit int64   // of the estimate
	}{
		// Qwen2.5-VL, Pixtral, LLaVA-OneVision, InternVL, Idefics3
		{"tiny", 16, 16, []int64{66, 2, 1458, 3328, 2950}, pictureLeast, pictureLeast},
		{"small", 640, 480, []int64{391, 1230, 4374, 3328, 2950}, 300, 500},
		{"medium", 1024, 1024, []int64{1369, 4160, 7290, 3328, 2950}, 1300, 1500},
		{"large", 2200, 2200, []int64{6241, 4160, 7290, 3328, 2950}, 6000, 6500},
		{"huge", 9000, 9000, []int64{16384, 4160, 7290, 3328, 2950}, maxPicture, maxPicture},
	} {
		empty := promptOf(t, `{"type":"text","text":"x"}`)
		r := promptOf(t, image("data:image/webp;base64,"+base64Of(webp(c.w, c.h)["lossless"])))
		tokens, bound := r.PromptTokens-empty.PromptTokens, r.PromptBound-empty.PromptBound
		if tokens < c.least-1 || tokens > c.limit {
			t.Errorf("%s: got an estimate of %d, want %d to %d", c.name, tokens, c.least, c.limit)
		}
		for _, honest := range c.honest {
			if bound < honest {
				t.Errorf("%s: got a bound of %d, want at least %d", c.name, bound, honest)
			}
		}
	}
}

// 31 tiny pictures may honestly cost what engines that fill tiles make of them.
func TestManyTinyPicturesDoNotMakeAnHonestClaimAbsurd(t *testing.T) {
	const tiled = 3328
	part := image("data:image/png;base64," + base64Of(painted(t, 1, 1)["png"]))
	r := promptOf(t, strings.Repeat(part+",", 30)+part)
	if want := int64(31 * tiled); r.PromptBound < want {
		t.Errorf("got a bound of %d, want at least %d", r.PromptBound, want)
	}
	if r.PromptTokens > 31*100 {
		t.Errorf("got an estimate of %d, want at most %d", r.PromptTokens, 31*100)
	}
}

func TestPicturesOfUnknownSizeHaveTheLargestBound(t *testing.T) {
	for _, url := range []string{
		"https://x.org/y.png", "http://x.org/", "data:image/png;base64,AAAA", "data:image/png,AAAA", "data:image/png;base64",
		"data:image/png;base64," + strings.Repeat("iVBORw0KGgo=", 3), "data:image/bmp;base64," +
			base64Of(append([]byte("BM"), make([]byte, 100)...)),
	} {
		if r := promptOf(t, image(url)); r.PromptTokens < pictureTokens || r.PromptBound < pictureBound {
			t.Errorf("%.60s: got %d, bound %d; want at least %d, %d", url, r.PromptTokens, r.PromptBound, pictureTokens,
				pictureBound)
		}
	}
}

// speech is a WAV file of so many seconds at 8 kHz.
func speech(seconds int) []byte {
	le := binary.LittleEndian
	data := make([]byte, seconds*16000)
	b := append([]byte("RIFF"), le.AppendUint32(nil, uint32(36+len(data)))...)
	b = append(b, "WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00\x40\x1f\x00\x00\x80\x3e\x00\x00\x02\x00\x10\x00data"...)
	return append(le.AppendUint32(b, uint32(len(data))), data...)
}

func TestSoundIsCountedByItsTime(t *testing.T) {
	wav := base64Of(speech(60))
	for _, part := range []string{
		`{"type":"input_audio","input_audio":{"data":"` + wav + `","format":"wav"}}`,
		`{"type":"input_audio","input_audio":{"format":"mp3","data":"` + strings.ReplaceAll(wav, "/", `\/`) + `"}}`,
		`{"type":"input_audio","input_audio":{"data":"data:audio/wav;base64,` + wav + `"}}`,
		`{"type":"audio_url","audio_url":{"url":"DATA:audio/wav;base64,` + wav + `"}}`,
	} {
		r := promptOf(t, part)
		if least := int64(audioLeast + 60*audioTokensPerSecond); r.PromptTokens < least || r.PromptTokens > least+20 {
			t.Errorf("%.60s: got %d tokens, want %d or up to 20 more", part, r.PromptTokens, least)
		}
		if least := int64(audioBoundLeast + 60*audioBoundPerSecond); r.PromptBound < least {
			t.Errorf("%.60s: got a bound of %d, want at least %d", part, r.PromptBound, least)
		}
	}
	// What cannot be measured may be a minute in 48 KB: Opus at 6 kbit/s.
	low := promptOf(t, `{"type":"input_audio","input_audio":{"data":"`+strings.Repeat("QUJD", 15000)+`","format":"opus"}}`)
	if low.PromptBound < 60*audioBoundPerSecond {
		t.Errorf("got a bound of %d, want at least %d", low.PromptBound, 60*audioBoundPerSecond)
	}
}

// A part that nobody knows is sent on, and what it holds or names has a bound.
func TestUnknownPartsPassAndHaveABound(t *testing.T) {
	blob := strings.Repeat("QUJD", 1<<14)
	for _, c := range []struct {
		part          string
		tokens, limit int64
		bound         int64
	}{
		{`{"type":"video_url","video_url":{"url":"https://x.org/v.mp4"}}`, 5, 40, mediaBound},
		{`{"type":"video_url","video_url":{"url":"https:\/\/x.org\/v.mp4"}}`, 5, 40, mediaBound},
		{`{"type":"video","video":["` + `\u0068ttps://x.org/v.mp4"]}`, 5, 40, mediaBound},
		{`{"type":"video_url","video_url":{"url":"data:video/mp4;base64,` + blob + `"}}`, 256, 300, mediaBound},
		{`{"type":"blob","it":{"deep":["data:text/plain;base64,` + blob + `"]}}`, 13000, 14000, mediaBound},
		{`{"it":{"is":true,"not":null,"n":5},"type":"none"}`, 2, 20, 10},
	} {
		r := promptOf(t, c.part)
		if r.PromptTokens < c.tokens || r.PromptTokens > c.limit || r.PromptBound < c.bound {
			t.Errorf("%.60s: got %d, bound %d; want %d to %d, bound %d", c.part, r.PromptTokens, r.PromptBound,
				c.tokens, c.limit, c.bound)
		}
		if out := r.Body("m", 5).Body; !bytes.Contains(out, []byte(c.part)) {
			t.Errorf("%.60s: sent on: got %q, want %q in it", c.part, out, []byte(c.part))
		}
	}
}

// Members that samplers take, and names alone, cost nothing without a claim.
func TestSamplersMembersAreNotOvercharged(t *testing.T) {
	plain, err := Parse(Chat, []byte(with(`"seed":1`)))
	if err != nil {
		t.Fatal(err)
	}
	for _, member := range []string{
		`"top_k":40,"min_p":0.05,"repetition_penalty":1.1,"ignore_eos":false`,
		`"temperature":1,"logit_bias":{"1":5},"stop":"` + strings.Repeat("stop ", 50) + `"`,
		`"usage":{"include":true},"provider":{"quantizations":["fp8"]},"models":["another/model"]`,
		`"stream":true,"user":"somebody-or-other"`,
	} {
		r, err := Parse(Chat, []byte(with(member)))
		if err != nil {
			t.Fatalf("%s: %v", member, err)
		}
		if r.PromptTokens != plain.PromptTokens {
			t.Errorf("%s: got %d tokens, want %d", member, r.PromptTokens, plain.PromptTokens)
		}
	}
	r, err := Parse(Chat,
		[]byte(withMessage(`{"role":"assistant","content":"hi","refusal":null,"audio":null,"annotations":[]}`)))
	if err != nil || r.PromptTokens != 1 {
		t.Errorf("got %d tokens, %v; want 1", r.PromptTokens, err)
	}
}

// What stands beside the inputs of an embedding goes with each of them.
func TestWhatStandsBesideInputsIsHeldForEach(t *testing.T) {
	instruction := strings.Repeat("word ", 100)
	r, err := Parse(Embeddings, []byte(`{"model":"m","instruction":"`+instruction+`","input":["a","b","c"]}`))
	if err != nil {
		t.Fatal(err)
	}
	if r.PromptTokens != 103 || r.LargestTokens != 101 || r.PromptBound < 303 {
		t.Errorf("got %d tokens, the largest input %d, bound %d; want 103, 101, at least 303", r.PromptTokens,
			r.LargestTokens, r.PromptBound)
	}
}

// FuzzPictureSize holds the head's reader against the decoders of Go: a picture
// that they read is as large as they say, or of an unknown size. A GIF may be
// larger than its screen.
func FuzzPictureSize(f *testing.F) {
	for _, size := range [][2]int{{1, 1}, {640, 480}} {
		for _, data := range painted(f, size[0], size[1]) {
			f.Add(data[:min(len(data), 2000)])
		}
		for _, data := range webp(size[0], size[1]) {
			f.Add(data)
		}
	}
	f.Add([]byte{0xff, 0xd8, 0xff, 0xff, 0xff, 0xd0, 0xff, 0xc0, 0, 9, 8, 0, 1, 0, 1, 1})
	f.Fuzz(func(t *testing.T, data []byte) {
		w, h, ok := pictureSize(encoded(base64Of(data)))
		if !ok {
			return
		}
		tokens, bound := tokensOfPicture(w, h)
		if tokens < pictureLeast || tokens > maxPicture {
			t.Fatalf("%d x %d: tokens: got %d, want %d to %d", w, h, tokens, pictureLeast, maxPicture)
		}
		if bound < tokens || bound > pictureBound {
			t.Fatalf("%d x %d: bound: got %d, want %d to %d", w, h, bound, tokens, pictureBound)
		}
		config, format, err := pictures.DecodeConfig(bytes.NewReader(data))
		if err != nil {
			return
		}
		switch {
		case format == "gif" && (w < int64(config.Width) || h < int64(config.Height)),
			format != "gif" && (w != int64(config.Width) || h != int64(config.Height)):
			t.Fatalf("%s: got %d x %d, want %d x %d", format, w, h, config.Width, config.Height)
		}
	})
}
