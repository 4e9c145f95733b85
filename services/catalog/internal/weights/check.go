package weights

import (
	"encoding/hex"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strings"

	"svc.internal/pkg/fault"
)

// Listing describes one file as an operator does.
type Listing struct {
	Name string
	// Hash is hexadecimal, in either case.
	Hash string
	// Algorithm is sha256; empty means the same.
	Algorithm string
	// Bytes is a JSON number, so it is checked before it is a size.
	Bytes float64
	URL   string
}

// Parse checks what an operator says of a model's weights and makes a Set of it. Without
// files there is no set, whatever the source is. Its fault names the field.
func Parse(sourceURL string, listings []Listing) (Set, error) {
	if len(listings) > MaxFiles {
		return Set{}, invalid("files", "must name at most %d", MaxFiles)
	}
	if sourceURL != "" {
		if problem := urlProblem(sourceURL, MaxSourceBytes); problem != "" {
			return Set{}, invalid("weight_source_url", "%s", problem)
		}
	}
	files := make([]File, len(listings))
	total := int64(0)
	for i, l := range listings {
		f, err := l.parse(fmt.Sprintf("files[%d].", i), sourceURL)
		if err != nil {
			return Set{}, err
		}
		if f.Size > MaxTotalBytes-total {
			return Set{}, invalid("files", "must have less than 2^53 bytes in all")
		}
		total += f.Size
		files[i] = f
	}
	if err := apart(files); err != nil {
		return Set{}, err
	}
	return NewSet(sourceURL, files), nil
}

func (l Listing) parse(at, sourceURL string) (File, error) {
	f := File{Name: l.Name, URL: l.URL}
	if problem := nameProblem(l.Name); problem != "" {
		return File{}, invalid(at+"filename", "%s", problem)
	}
	if l.Algorithm != "" && l.Algorithm != Algorithm {
		return File{}, invalid(at+"algorithm", "must be %s", Algorithm)
	}
	if n, err := hex.Decode(f.Hash[:], []byte(bounded(l.Hash))); err != nil || n != len(f.Hash) {
		return File{}, invalid(at+"hash", "must be %d hexadecimal digits", hex.EncodedLen(len(f.Hash)))
	}
	if l.Bytes != math.Trunc(l.Bytes) || l.Bytes < 0 || l.Bytes > MaxTotalBytes {
		return File{}, invalid(at+"size_bytes", "must be a whole number from 0 to 2^53-1")
	}
	f.Size = int64(l.Bytes)
	if problem := urlProblem(l.URL, MaxURLBytes); problem != "" {
		return File{}, invalid(at+"url", "%s", problem)
	}
	if !strings.HasPrefix(l.URL, sourceURL) {
		return File{}, invalid(at+"url", "must begin with weight_source_url")
	}
	return f, nil
}

// bounded returns text if it has the length of a hash, and otherwise an empty text, so
// that a longer text is never decoded.
func bounded(text string) string {
	if len(text) != hex.EncodedLen(len(Hash{})) {
		return ""
	}
	return text
}

// nameProblem returns what is wrong with a filename, or an empty text. The filename
// becomes a path on machines of any system, below a folder that it must not leave.
func nameProblem(name string) string {
	if name == "" || len(name) > MaxFilenameBytes {
		return fmt.Sprintf("must be 1 to %d bytes", MaxFilenameBytes)
	}
	for segment := range strings.SplitSeq(name, "/") {
		switch {
		case segment == "" || segment == "." || segment == "..":
			return `must be a relative path without a segment that is empty, "." or ".."`
		case strings.HasPrefix(segment, " ") || strings.HasSuffix(segment, " ") || strings.HasSuffix(segment, "."):
			return "must not have a segment that begins with a space or ends with one or with a dot"
		case strings.ContainsFunc(segment, unfit):
			return `may only have printable ASCII other than \ : * ? " < > |`
		}
	}
	return ""
}

// unfit reports whether a filename may not have a character, because the character
// is not printable ASCII or means something to a file system or in the lines of the
// composite hash.
func unfit(r rune) bool { return r < ' ' || r > '~' || strings.ContainsRune(`\:*?"<>|`, r) }

// urlProblem says what is wrong with the address of a file, if anything.
func urlProblem(text string, maxBytes int) string {
	if len(text) > maxBytes {
		return fmt.Sprintf("must have at most %d bytes", maxBytes)
	}
	if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "must be printable ASCII without spaces"
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "https" || u.Hostname() == "" || u.Opaque != "":
		return "must be an https address"
	case u.User != nil || u.Fragment != "":
		return "must not have credentials or a fragment"
	}
	return ""
}

// apart refuses two files of one name, in either case since some file systems
// hold these for the same, and a file that another needs as its folder.
func apart(files []File) error {
	names := make([]string, len(files))
	for i, f := range files {
		names[i] = strings.ToLower(f.Name)
	}
	slices.Sort(names)
	for i, name := range names {
		if i > 0 && name == names[i-1] {
			return invalid("files", "name %q twice", name)
		}
		for at := strings.LastIndexByte(name, '/'); at > 0; at = strings.LastIndexByte(name[:at], '/') {
			if _, taken := slices.BinarySearch(names, name[:at]); taken {
				return invalid("files", "have %q as a file and as a folder", name[:at])
			}
		}
	}
	return nil
}

func invalid(field, problem string, args ...any) error {
	return fault.New(fault.Invalid, fault.InvalidValue, "%s %s", field, fmt.Sprintf(problem, args...)).On(field)
}
