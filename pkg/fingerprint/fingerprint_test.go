package fingerprint

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"strings"
	"testing"
	"testing/fstest"
)

// content is what the golden vectors were made of, by another program.
func content(seed, size int) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = byte((i*7 + seed) % 251)
	}
	return b
}

func model() fstest.MapFS {
	return fstest.MapFS{
		"model-00001.safetensors": {Data: content(3, 10000)}, "config.json": {Data: content(5, 100)},
		"empty.bin": {}, "sub/tail.bin": {Data: content(9, 8192)},
	}
}

func nonce() []byte {
	b := make([]byte, NonceSize)
	for i := range b {
		b[i] = byte(i)
	}
	return b
}

// golden is a challenge of the model with a chain of so many blocks.
func golden(blocks int) Challenge {
	return Challenge{
		ID: "golden", Nonce: nonce(), Blocks: blocks,
		Ranges: []Range{
			{"model-00001.safetensors", 0, 10000}, {"model-00001.safetensors", 9999, 1}, {"config.json", 50, 50},
		},
		Files: []File{
			{"model-00001.safetensors", 10000}, {"config.json", 100}, {"empty.bin", 0}, {"sub/tail.bin", 8192},
		},
	}
}

func TestDigestsAreThoseOfTheGoldenVectors(t *testing.T) {
	t.Parallel()
	ranges := []string{
		"93a74ff90f68a03c35145c7c72580b8a8c95a527d0e04b70221dd9bc7179372c",
		"5a61beaae481a40ada55438e5519c5f4c575883ccb703ae3d199db97f44d0da9",
		"84a922f09568b83cee8e833b994f522513a788f78b1a7aab0320ac9237c99287",
	}
	for blocks, chain := range map[int]string{
		1:   "6962fc1dcee7d208b968df4d5dfb4c201bc11ca06f206bde7ce1fde04e2248e7",
		2:   "c3874c44cb5ce6da8989075c84afb06bf9152c7a40fb7de2be0b546e0ab784af",
		256: "022e2c4c645afd3981500792af0283190c6c3c2c7f33bf60b8a519f6f477cf6d",
	} {
		r := Answer(t.Context(), model(), golden(blocks))
		if r.Error != "" {
			t.Errorf(`%d blocks: r.Error: got %q, want ""`, blocks, r.Error)
		}
		for i, want := range ranges {
			if got := hex.EncodeToString(r.Digests[i]); got != want {
				t.Errorf("%d blocks: digest %d: got %s, want %s", blocks, i, got, want)
			}
		}
		if got := hex.EncodeToString(r.Chain); got != chain {
			t.Errorf("%d blocks: the chain: got %s, want %s", blocks, got, chain)
		}
	}
	if got := hex.EncodeToString(RangeDigest(nonce(), "config.json", 50, content(5, 100)[50:])); got != ranges[2] {
		t.Errorf("RangeDigest: got %s, want %s", got, ranges[2])
	}
}

func TestDigestsDependOnEveryPartOfTheChallenge(t *testing.T) {
	t.Parallel()
	base := Answer(t.Context(), model(), golden(64))
	other := golden(64)
	other.Nonce[31]++
	if r := Answer(t.Context(), model(), other); bytes.Equal(r.Digests[0], base.Digests[0]) {
		t.Error("another nonce: got the same digest of a range, want another")
	} else if bytes.Equal(r.Chain, base.Chain) {
		t.Error("another nonce: got the same chain, want another")
	}
	other = golden(64)
	other.Files[0], other.Files[1] = other.Files[1], other.Files[0]
	if r := Answer(t.Context(), model(), other); bytes.Equal(r.Chain, base.Chain) {
		t.Error("another order of files: got the same chain, want another")
	}
	changed := model()
	changed["model-00001.safetensors"].Data[9999] ^= 1
	r := Answer(t.Context(), changed, golden(64))
	for i, same := range []bool{false, false, true} {
		if bytes.Equal(r.Digests[i], base.Digests[i]) != same {
			t.Errorf("a changed bit: digest %d is the same: got %t, want %t", i, !same, same)
		}
	}
	if bytes.Equal(r.Chain, base.Chain) {
		t.Error("a changed bit: got the same chain, want another")
	}
	other = golden(64)
	other.ID = "another"
	if r := Answer(t.Context(), model(), other); !bytes.Equal(r.Chain, base.Chain) {
		t.Error("another id: got another chain, want the same")
	}
}

// watched counts what is read of its files.
type watched struct {
	fs.FS
	opened  int
	reads   []Range
	largest int
	before  func()
}

func (w *watched) Open(name string) (fs.File, error) {
	f, err := w.FS.Open(name)
	if err != nil {
		return nil, err
	}
	w.opened++
	return &watchedFile{f, w, name}, nil
}

type watchedFile struct {
	fs.File
	w    *watched
	name string
}

func (f *watchedFile) ReadAt(p []byte, at int64) (int, error) {
	if f.w.before != nil {
		f.w.before()
	}
	f.w.reads = append(f.w.reads, Range{f.name, at, len(p)})
	f.w.largest = max(f.w.largest, len(p))
	return f.File.(io.ReaderAt).ReadAt(p, at)
}

func TestBlocksLieWithinTheirFiles(t *testing.T) {
	t.Parallel()
	w := &watched{FS: model()}
	c := golden(256)
	c.Ranges = []Range{{"config.json", 0, 1}}
	if r := Answer(t.Context(), w, c); r.Error != "" {
		t.Fatalf(`r.Error: got %q, want ""`, r.Error)
	}
	want := map[Range]bool{
		{"model-00001.safetensors", 0, 4096}: true, {"model-00001.safetensors", 4096, 4096}: true,
		{"model-00001.safetensors", 8192, 1808}: true, {"config.json", 0, 100}: true,
		{"sub/tail.bin", 0, 4096}: true, {"sub/tail.bin", 4096, 4096}: true,
	}
	got := map[Range]int{}
	for _, r := range w.reads[1:] {
		got[r]++
		if !want[r] {
			t.Errorf("read: got %v, want one of the six blocks", r)
		}
	}
	// 256 of six blocks leave one out with probability 3e-20.
	if len(got) != len(want) {
		t.Errorf("blocks read: got %d, want %d", len(got), len(want))
	}
	if w.opened != 3 {
		t.Errorf("files opened: got %d, want 3, each once and the empty one not", w.opened)
	}
}

func TestChosenBlocksAreSpreadEvenly(t *testing.T) {
	t.Parallel()
	const n, draws = 6, 60_000
	d := newDigester(nonce())
	digest, counts := d.start(golden(1)), [n]int{}
	for range draws {
		counts[chosen(digest, n)]++
		d.beginBlock(digest, Range{File: "x"})
		digest = d.mac.Sum(nil)
	}
	for k, got := range counts {
		if got < 9_500 || got > 10_500 { // 5.5 standard deviations
			t.Errorf("block %d: got %d of %d, want about %d", k, got, draws, draws/n)
		}
	}
}

func TestBlockOfTheLargestFilesIsFound(t *testing.T) {
	t.Parallel()
	var files []File
	for i := range MaxFiles {
		files = append(files, File{fmt.Sprint(i), MaxSize})
	}
	n := numbering(files)
	if n != MaxFiles*(MaxSize/BlockSize) {
		t.Errorf("blocks: got %d, want %d", n, int64(MaxFiles)*(MaxSize/BlockSize))
	}
	if f, block := blockAt(files, n-1); f.Name != "63" {
		t.Errorf(`the last block: file: got %q, want "63"`, f.Name)
	} else if block != (Range{"63", MaxSize - BlockSize, BlockSize}) {
		t.Errorf("the last block: got %v, want the end of the last file", block)
	}
}

func TestAnswerReadsNoMoreThanItsBounds(t *testing.T) {
	t.Parallel()
	files := fstest.MapFS{"large": {Data: make([]byte, MaxLength)}}
	c := Challenge{ID: "x", Nonce: nonce(), Blocks: MaxBlocks}
	for range MaxRanges {
		c.Ranges = append(c.Ranges, Range{"large", 0, MaxLength})
	}
	for i := range MaxFiles {
		name := fmt.Sprintf("f%d", i)
		files[name] = &fstest.MapFile{Data: make([]byte, 3*BlockSize)}
		c.Files = append(c.Files, File{name, 3 * BlockSize})
	}
	w := &watched{FS: files}
	if r := Answer(t.Context(), w, c); r.Error != "" {
		t.Fatalf(`r.Error: got %q, want ""`, r.Error)
	}
	sum := 0
	for _, r := range w.reads {
		sum += r.Length
	}
	if want := MaxRanges*MaxLength + MaxBlocks*BlockSize; sum != want {
		t.Errorf("bytes read: got %d, want %d", sum, want)
	}
	if w.largest != piece {
		t.Errorf("largest read: got %d, want %d", w.largest, piece)
	}
	if w.opened > MaxFiles+1 {
		t.Errorf("files opened: got %d, want at most %d", w.opened, MaxFiles+1)
	}
}

func TestAnswerEndsWithItsContext(t *testing.T) {
	t.Parallel()
	for _, after := range []int{1, 16, 17, 100} {
		ctx, cancel := context.WithCancel(t.Context())
		w := &watched{FS: fstest.MapFS{"large": {Data: make([]byte, MaxLength)}}}
		w.before = func() {
			if len(w.reads)+1 == after {
				cancel()
			}
		}
		c := Challenge{ID: "x", Nonce: nonce(), Ranges: []Range{{"large", 0, MaxLength}},
			Files: []File{{"large", MaxLength}}, Blocks: MaxBlocks}
		r := Answer(ctx, w, c)
		cancel()
		if len(w.reads) != after {
			t.Errorf("reads: got %d, want %d", len(w.reads), after)
		}
		if r.Error != errTime.Error() {
			t.Errorf("after %d reads: r.Error: got %q, want %q", after, r.Error, errTime)
		}
		if got, want := len(r.Digests[0]) > 0, after >= 16; got != want {
			t.Errorf("after %d reads: the range has a digest: got %t, want %t", after, got, want)
		}
		if len(r.Chain) != 0 {
			t.Errorf("after %d reads: the chain: got %x, want none", after, r.Chain)
		}
	}
}

func TestNoFileIsOpenedOnceTheContextHasEnded(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := &watched{FS: model()}
	r := Answer(ctx, w, golden(2))
	if w.opened != 0 {
		t.Errorf("files opened: got %d, want none", w.opened)
	}
	if r.Error != errTime.Error() {
		t.Errorf("r.Error: got %q, want %q", r.Error, errTime)
	}
}

func TestAnswerSaysWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	ok := Range{"config.json", 0, 100}
	for name, c := range map[string]struct {
		ranges []Range
		files  []File
		want   string
	}{
		"no such file":       {[]Range{{"gone", 0, 1}, ok}, nil, `"gone": there is no such file`},
		"a folder":           {[]Range{{"sub", 0, 1}, ok}, nil, `"sub": is not a regular file`},
		"one byte too far":   {[]Range{{"config.json", 1, 100}, ok}, nil, `"config.json": the file ends before`},
		"offset past it":     {[]Range{{"config.json", MaxSize - 1, 1}, ok}, nil, `"config.json": the file ends before`},
		"an empty file":      {[]Range{{"empty.bin", 0, 1}, ok}, nil, `"empty.bin": the file ends before`},
		"a larger chain":     {[]Range{ok, ok}, []File{{"config.json", 101}}, `"config.json": the file has not the size`},
		"a smaller chain":    {[]Range{ok, ok}, []File{{"config.json", 99}}, `"config.json": the file has not the size`},
		"a chain of no file": {[]Range{ok, ok}, []File{{"gone", 99}}, `"gone": there is no such file`},
	} {
		asked := Challenge{ID: "x", Nonce: nonce(), Ranges: c.ranges, Files: c.files, Blocks: len(c.files)}
		r := Answer(t.Context(), model(), asked)
		if !strings.HasPrefix(r.Error, c.want) {
			t.Errorf("%s: r.Error: got %q, want it to begin with %q", name, r.Error, c.want)
		}
		if got, want := len(r.Digests[0]) > 0, c.files != nil; got != want {
			t.Errorf("%s: the first digest is there: got %t, want %t", name, got, want)
		}
		if len(r.Digests[1]) != DigestSize {
			t.Errorf("%s: the second digest: got %d bytes, want %d", name, len(r.Digests[1]), DigestSize)
		}
		if len(r.Chain) != 0 {
			t.Errorf("%s: the chain: got %d bytes, want none", name, len(r.Chain))
		}
		if err := r.Validate(asked); err != nil {
			t.Errorf("%s: the answer is refused: %v", name, err)
		}
	}
}

// failing is a file whose reads fail or come short, as when it is cut meanwhile.
type failing struct {
	fs.File
	err error
}

func (f failing) ReadAt([]byte, int64) (int, error) { return 0, f.err }

type failingFS struct{ read, open error }

func (f failingFS) Open(name string) (fs.File, error) {
	if f.open != nil {
		return nil, f.open
	}
	file, err := model().Open(name)
	return failing{file, f.read}, err
}

// streamed has files that cannot be read from any place.
type streamed struct{ fs.FS }

func (s streamed) Open(name string) (fs.File, error) {
	f, err := s.FS.Open(name)
	return struct{ fs.File }{f}, err
}

func TestFailingFilesAreNamedWithoutThePathOfTheMachine(t *testing.T) {
	t.Parallel()
	secret := errors.New("/home/owner/secret")
	for want, fsys := range map[string]fs.FS{
		`"config.json": cannot be read`:                            failingFS{read: secret},
		`"config.json": the file ends before the range does`:       failingFS{read: io.EOF},
		`"config.json": there is no such file`:                     failingFS{open: fs.ErrNotExist},
		`"config.json": cannot be read from any place`:             streamed{model()},
		"\"config.json\": the file ends before the range does\x00": failingFS{read: nil},
	} {
		c := Challenge{ID: "x", Nonce: nonce(), Ranges: []Range{{"config.json", 0, 1}}}
		if got := Answer(t.Context(), fsys, c).Error; got != strings.TrimSuffix(want, "\x00") {
			t.Errorf("r.Error: got %q, want %q", got, want)
		}
	}
	c := Challenge{ID: "x", Nonce: nonce(), Ranges: []Range{{"config.json", 0, 1}}}
	if got := Answer(t.Context(), failingFS{open: secret}, c).Error; got != `"config.json": cannot be read` {
		t.Errorf(`r.Error: got %q, want it without the path`, got)
	}
}

func TestChallengesBeyondABoundAreRefused(t *testing.T) {
	t.Parallel()
	one := Range{"config.json", 0, 1}
	for what, change := range map[string]func(*Challenge){
		"no id":                func(c *Challenge) { c.ID = "" },
		"a long id":            func(c *Challenge) { c.ID = strings.Repeat("a", MaxID+1) },
		"an id with a slash":   func(c *Challenge) { c.ID = "a/b" },
		"a short nonce":        func(c *Challenge) { c.Nonce = c.Nonce[1:] },
		"no nonce":             func(c *Challenge) { c.Nonce = nil },
		"a long nonce":         func(c *Challenge) { c.Nonce = append(c.Nonce, 0) },
		"no ranges":            func(c *Challenge) { c.Ranges = nil },
		"17 ranges":            func(c *Challenge) { c.Ranges = []Range{16: one} },
		"a negative offset":    func(c *Challenge) { c.Ranges[0].Offset = -1 },
		"the least offset":     func(c *Challenge) { c.Ranges[0].Offset = math.MinInt64 },
		"the largest offset":   func(c *Challenge) { c.Ranges[0].Offset = math.MaxInt64 },
		"an end beyond 2^44":   func(c *Challenge) { c.Ranges[0] = Range{"config.json", MaxSize, 1} },
		"length 0":             func(c *Challenge) { c.Ranges[0].Length = 0 },
		"a negative length":    func(c *Challenge) { c.Ranges[0].Length = math.MinInt32 },
		"more than 1 MiB":      func(c *Challenge) { c.Ranges[0].Length = MaxLength + 1 },
		"300 blocks":           func(c *Challenge) { c.Blocks = 300 },
		"257 blocks":           func(c *Challenge) { c.Blocks = MaxBlocks + 1 },
		"negative blocks":      func(c *Challenge) { c.Blocks = -1 },
		"files without blocks": func(c *Challenge) { c.Blocks = 0 },
		"blocks without files": func(c *Challenge) { c.Files = nil },
		"65 files": func(c *Challenge) {
			c.Files = nil
			for i := range MaxFiles + 1 {
				c.Files = append(c.Files, File{fmt.Sprint(i), 1})
			}
		},
		"a negative size":         func(c *Challenge) { c.Files[0].Size = -1 },
		"a size above 2^44":       func(c *Challenge) { c.Files[0].Size = MaxSize + 1 },
		"the largest size":        func(c *Challenge) { c.Files[0].Size = math.MaxInt64 },
		"empty files only":        func(c *Challenge) { c.Files = []File{{"a", 0}, {"b", 0}} },
		"a file twice":            func(c *Challenge) { c.Files[1].Name = c.Files[0].Name },
		"a file in another case":  func(c *Challenge) { c.Files[1].Name = strings.ToUpper(c.Files[0].Name) },
		"a file with a long s":    func(c *Challenge) { c.Files[0].Name, c.Files[1].Name = "s", "ſ" },
		"a range outside":         func(c *Challenge) { c.Ranges[0].File = "../x" },
		"a file outside":          func(c *Challenge) { c.Files[2].Name = "../x" },
		"a range of a long name":  func(c *Challenge) { c.Ranges[0].File = strings.Repeat("a", MaxName+1) },
		"a file without any name": func(c *Challenge) { c.Files[0].Name = "" },
	} {
		c := golden(2)
		change(&c)
		if err := c.Validate(); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: got the error %v, want ErrInvalid", what, err)
		}
		w := &watched{FS: model()}
		r := Answer(t.Context(), w, c)
		if w.opened != 0 {
			t.Errorf("%s: files opened: got %d, want none", what, w.opened)
		}
		if r.Error == "" {
			t.Errorf("%s: the answer: got no error, want one", what)
		}
		if r.Digests != nil {
			t.Errorf("%s: the answer: got %x, want no digests", what, r.Digests)
		}
	}
	c := golden(MaxBlocks)
	c.ID = strings.Repeat("a", MaxID)
	c.Ranges = []Range{{strings.Repeat("a", MaxName), MaxSize - MaxLength, MaxLength}, 15: one}
	for i := range c.Ranges[1:] {
		c.Ranges[i+1] = one
	}
	if err := c.Validate(); err != nil {
		t.Errorf("a challenge at every bound: got the error %v, want none", err)
	}
}

// strayNames are names that are no path below a folder, or not on every system.
func strayNames() []string {
	return []string{
		"", ".", "..", "../x", "a/../../x", "a/..", "/etc/passwd", "a//b", "a/", "./a", "a\x00b", "a\nb", "a\x7fb",
		"a\u0085b", `a\b`, `..\x`, "C:/x", "c:x", "a:stream", "\xff\xfe", strings.Repeat("a", MaxName+1),
	}
}

func TestNamesThatAreNoPathBelowAFolderAreRefused(t *testing.T) {
	t.Parallel()
	for _, name := range strayNames() {
		c := Challenge{ID: "x", Nonce: nonce(), Ranges: []Range{{name, 0, 1}}}
		if err := c.Validate(); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: got the error %v, want ErrInvalid", name, err)
		}
	}
	longest := strings.Repeat("a", MaxName)
	for _, name := range []string{"a", "sub/dir/a b.bin", "..a", "a..b", "模型.bin", ".hidden", longest} {
		c := Challenge{ID: "x", Nonce: nonce(), Ranges: []Range{{name, 0, 1}}}
		if err := c.Validate(); err != nil {
			t.Errorf("%q: got the error %v, want none", name, err)
		}
	}
}

func TestAnswersThatDoNotFitAreRefused(t *testing.T) {
	t.Parallel()
	c := golden(2)
	for what, change := range map[string]func(*Result){
		"a digest too few":     func(r *Result) { r.Digests = r.Digests[1:] },
		"a digest too many":    func(r *Result) { r.Digests = append(r.Digests, nil) },
		"a digest of 31 bytes": func(r *Result) { r.Digests[1] = r.Digests[1][1:] },
		"a chain of 33 bytes":  func(r *Result) { r.Chain = append(r.Chain, 0) },
		"a long error":         func(r *Result) { r.Error = strings.Repeat("a", MaxError+1) },
		"nothing, unexplained": func(r *Result) { *r = Result{} },
	} {
		r := Answer(t.Context(), model(), c)
		change(&r)
		if err := r.Validate(c); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: got the error %v, want ErrInvalid", what, err)
		}
	}
	r := Answer(t.Context(), model(), c)
	c.Files, c.Blocks = nil, 0
	if err := r.Validate(c); !errors.Is(err, ErrInvalid) {
		t.Errorf("a chain that was not asked for: got the error %v, want ErrInvalid", err)
	}
	if err := Failed(strings.Repeat("ä", MaxError)).Validate(c); err != nil {
		t.Errorf("an answer that says why: got the error %v, want none", err)
	}
}

func FuzzAnswer(f *testing.F) {
	f.Add("golden", nonce(), "config.json", int64(50), 50, 3, "sub/tail.bin", int64(8192), 2, 256)
	f.Add("x", nonce(), "../x", int64(-1), 1<<30, 17, "/", int64(math.MaxInt64), 65, 300)
	f.Add("x", nonce(), "empty.bin", int64(math.MaxInt64), 1, 1, "empty.bin", int64(0), 1, 1)
	f.Fuzz(func(t *testing.T, id string, nonce []byte, name string, offset int64, length, ranges int, file string,
		size int64, files, blocks int) {
		c := Challenge{ID: id, Nonce: nonce, Blocks: blocks}
		for i := range min(max(ranges, 0), 2*MaxRanges) {
			c.Ranges = append(c.Ranges, Range{name, offset + int64(i), length})
		}
		for i := range min(max(files, 0), 2*MaxFiles) {
			c.Files = append(c.Files, File{file + strings.Repeat("x", i), size})
		}
		w := &watched{FS: model()}
		r := Answer(t.Context(), w, c)
		if err := c.Validate(); (err == nil) != (r.Digests != nil) {
			t.Fatalf("the answer has digests: got %t, with the error %v", r.Digests != nil, err)
		}
		if err := r.Validate(c); err != nil {
			t.Fatalf("the answer is refused: %v", err)
		}
		again := Answer(t.Context(), w.FS, c)
		if !bytes.Equal(again.Chain, r.Chain) {
			t.Fatalf("the chain: got %x and then %x, want the same", r.Chain, again.Chain)
		}
	})
}
