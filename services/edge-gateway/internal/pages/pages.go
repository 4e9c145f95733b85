// Package pages answers requests for the pages of the console: one HTML document that the browser's
// program turns into each page, and the files that it loads. The gateways of a fleet answer alike,
// because the files are compiled in.
//
// The document names a nonce that no other answer has. Its Content-Security-Policy lets the browser run
// scripts of this site alone, and take styles from this site or with the nonce, so that text which a
// stranger wrote can become neither.
package pages

import (
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"
)

// Root is the path below which the pages are.
const Root = "/app/"

// Audience is who the pages of a listener are for.
type Audience string

// The audiences.
const (
	Public    Audience = "public"
	Operators Audience = "operators"
)

// Names that stand in the document for what differs between answers.
const (
	nonceName    = "__NONCE__"
	audienceName = "__AUDIENCE__"
	document     = "index.html"
	// assets is the folder of the files whose names change with their contents.
	assets = "assets/"
)

// Files are the built pages. They are packed once and serve every listener.
type Files struct {
	document string
	named    map[string]file
}

// Site is the pages of one listener. It is safe for concurrent use.
type Site struct {
	document string
	files    map[string]file
}

type file struct {
	content, packed []byte // packed is by gzip; nil where that saves nothing
	kind, tag       string
	forever         bool // its name changes with its content
}

// kinds has the media type of each file by its ending. The table of the machine is not used, because
// gateways on two machines would answer differently.
var kinds = map[string]string{
	".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml",
	".png": "image/png", ".ico": "image/x-icon", ".woff2": "font/woff2", ".json": "application/json",
	".webmanifest": "application/manifest+json", ".txt": "text/plain; charset=utf-8",
}

// Read reads the built pages into memory and packs them. It fails for a document without a place for a
// nonce, and for a file whose ending is not in kinds.
func Read(built fs.FS) (*Files, error) {
	read := &Files{named: map[string]file{}}
	err := fs.WalkDir(built, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(built, name)
		if err != nil {
			return err
		}
		if name == document {
			read.document = string(content)
			return nil
		}
		read.named[name], err = pack(name, content)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the console's pages: %w", err)
	}
	if !strings.Contains(read.document, nonceName) {
		return nil, errors.New("read the console's pages: index.html has no place for a nonce")
	}
	return read, nil
}

// Site returns the pages for an audience.
func (f *Files) Site(audience Audience) *Site {
	return &Site{document: strings.ReplaceAll(f.document, audienceName, string(audience)), files: f.named}
}

func pack(name string, content []byte) (file, error) {
	kind, ok := kinds[path.Ext(name)]
	if !ok {
		return file{}, fmt.Errorf("%s: no media type is known for its ending", name)
	}
	digest := sha256.Sum256(content)
	f := file{content: content, kind: kind, tag: `"` + base64.RawURLEncoding.EncodeToString(digest[:12]) + `"`,
		forever: strings.HasPrefix(name, assets)}
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return file{}, err
	}
	if _, err := w.Write(content); err != nil {
		return file{}, err
	}
	if err := w.Close(); err != nil {
		return file{}, err
	}
	if packed.Len() < len(content)*9/10 {
		f.packed = packed.Bytes()
	}
	return f, nil
}

// Answer is what a browser gets. Its body is nil for a file that the browser has.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Takes reports whether a request is for a page: below /app/, or for the root of the site by a program
// that reads HTML.
func Takes(urlPath string, accept []string) bool {
	if urlPath == "/" {
		return strings.Contains(strings.Join(accept, ","), "text/html")
	}
	return urlPath == strings.TrimSuffix(Root, "/") || strings.HasPrefix(urlPath, Root)
}

// Answer returns the answer to a request that Takes takes, and false for a file that is not there. A path
// that names no file is a page, and gets the document.
func (s *Site) Answer(urlPath string, header http.Header) (Answer, bool) {
	name := strings.TrimPrefix(urlPath, Root)
	if f, ok := s.files[name]; ok && urlPath != name {
		return f.answer(header), true
	}
	if strings.HasPrefix(name, assets) {
		return Answer{}, false
	}
	return s.page(), true
}

func (f file) answer(asked http.Header) Answer {
	h := http.Header{
		// The tag is a weak one, because it names the content whether or not it is packed.
		"Content-Type": {f.kind}, "Etag": {"W/" + f.tag}, "Vary": {"Accept-Encoding"}, "Cache-Control": {"no-cache"},
	}
	if f.forever {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	if f.had(asked.Values("If-None-Match")) {
		return Answer{Status: http.StatusNotModified, Header: h}
	}
	if f.packed != nil && takesGzip(asked.Values("Accept-Encoding")) {
		h.Set("Content-Encoding", "gzip")
		return Answer{Status: http.StatusOK, Header: h, Body: f.packed}
	}
	return Answer{Status: http.StatusOK, Header: h, Body: f.content}
}

// had reports whether a browser has the file already, by the tags that it names.
func (f file) had(tags []string) bool {
	for tag := range strings.SplitSeq(strings.Join(tags, ","), ",") {
		if strings.TrimPrefix(strings.TrimSpace(tag), "W/") == f.tag {
			return true
		}
	}
	return false
}

// takesGzip reports whether a client reads gzip. One that names a weight for it is taken to read it only
// if the weight is not zero.
func takesGzip(accepted []string) bool {
	for part := range strings.SplitSeq(strings.Join(accepted, ","), ",") {
		coding, weight, weighted := strings.Cut(part, ";")
		if !strings.EqualFold(strings.TrimSpace(coding), "gzip") {
			continue
		}
		weight = strings.ReplaceAll(weight, " ", "")
		return !weighted || strings.Trim(strings.TrimPrefix(weight, "q="), "0.") != ""
	}
	return false
}

func (s *Site) page() Answer {
	nonce := rand.Text()
	return Answer{Status: http.StatusOK, Header: http.Header{
		"Content-Type":                 {"text/html; charset=utf-8"},
		"Vary":                         {"Accept"}, // the root answers programs otherwise
		"Cache-Control":                {"no-store"},
		"Content-Security-Policy":      {policy(nonce)},
		"Referrer-Policy":              {"same-origin"},
		"Cross-Origin-Opener-Policy":   {"same-origin"},
		"Cross-Origin-Resource-Policy": {"same-origin"},
		"Permissions-Policy":           {"camera=(), geolocation=(), microphone=(), payment=()"},
		"X-Frame-Options":              {"DENY"},
	}, Body: []byte(strings.ReplaceAll(s.document, nonceName, nonce))}
}

// policy allows what the pages need, and nothing else: the card processor is a site of its own that the
// browser goes to.
func policy(nonce string) string {
	return strings.Join([]string{
		"default-src 'none'",
		"script-src 'self'",
		"style-src 'self' 'nonce-" + nonce + "'",
		"img-src 'self' data:", // the kit's small drawings
		"connect-src 'self'",
		"manifest-src 'self'",
		"base-uri 'none'",
		"form-action 'self'",
		"frame-ancestors 'none'",
	}, "; ")
}
