package entry

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"svc.internal/pkg/fault"
)

// The bounds of an entry. The package comment lists them.
const (
	maxIDBytes       = 128
	maxNameChars     = 128
	maxCapabilities  = 32
	maxParameters    = 64
	maxWordBytes     = 48
	maxContextTokens = 100_000_000
	maxVRAMGB        = 65_536
)

// Names that routes under /api/v1/models have for themselves.
const (
	reservedID       = "catalog"
	providersSegment = "/providers"
	filesSegment     = "/files"
)

// Normalize fills in what an operator may leave out, and checks the rest. An empty slug
// becomes the id with dashes for slashes, an empty name the id, an empty category llm, an
// empty kind open, and an empty tier standard, or premium for a gateway model. 0 output tokens
// become the window if the model writes tokens. Its fault names the field.
func (d Draft) Normalize() (Draft, error) {
	if problem := idProblem(d.ID); problem != "" {
		return Draft{}, invalid("model_id", problem)
	}
	d = d.withDefaults()
	var err error
	if d.Capabilities, err = words("capabilities", d.Capabilities, maxCapabilities); err != nil {
		return Draft{}, err
	}
	if d.Parameters, err = words("supported_parameters", d.Parameters, maxParameters); err != nil {
		return Draft{}, err
	}
	return d, d.check()
}

func (d Draft) withDefaults() Draft {
	d.Slug = orElse(d.Slug, strings.ReplaceAll(d.ID, "/", "-"))
	d.Name = orElse(d.Name, d.ID)
	d.Category = orElse(d.Category, LLM)
	d.Kind = orElse(d.Kind, Open)
	if d.Kind == Gateway {
		d.Tier = orElse(d.Tier, Premium)
	}
	d.Tier = orElse(d.Tier, Standard)
	if d.MaxOutputTokens == 0 && d.Category.writesTokens() {
		d.MaxOutputTokens = d.ContextTokens
	}
	return d
}

func (d Draft) check() error {
	switch {
	case len(d.Slug) > maxIDBytes || !isWord(d.Slug, isIDByte) || d.Slug == "." || d.Slug == "..":
		return invalid("slug", `must be 1 to 128 of A-Z a-z 0-9 . _ : - and not "." or ".."`)
	case !utf8.ValidString(d.Name) || utf8.RuneCountInString(d.Name) > maxNameChars ||
		strings.ContainsFunc(d.Name, unicode.IsControl):
		return invalid("name", "must be 1 to 128 characters without control characters")
	case !slices.Contains([]Category{LLM, Multimodal, Embedding, Image, Audio}, d.Category):
		return invalid("category", "must be llm, multimodal, embedding, image or audio")
	case !slices.Contains([]Kind{Open, Gateway}, d.Kind):
		return invalid("kind", "must be open or gateway")
	case !slices.Contains([]Tier{Free, Standard, Premium}, d.Tier):
		return invalid("tier", "must be free, standard or premium")
	case d.Kind == Gateway && d.Tier != Premium:
		return invalid("tier", "of a gateway model must be premium, because no plan pays a vendor")
	case d.ContextTokens < 1 || d.ContextTokens > maxContextTokens:
		return invalid("context_length", fmt.Sprintf("must be 1 to %d tokens", maxContextTokens))
	case d.MaxOutputTokens < 0 || d.MaxOutputTokens > d.ContextTokens:
		return invalid("max_output_tokens", "must be 0 to context_length")
	case d.MinVRAMGB < 0 || d.MinVRAMGB > maxVRAMGB:
		return invalid("min_vram_gb", fmt.Sprintf("must be 0 to %d", maxVRAMGB))
	case d.Successor != "" && idProblem(d.Successor) != "":
		return invalid("successor", idProblem(d.Successor))
	case d.Successor == d.ID:
		return invalid("successor", "must be another model")
	}
	return nil
}

// IsID reports whether a model can have the id. A store need not be asked for another.
func IsID(id string) bool { return idProblem(id) == "" }

// idProblem returns what is wrong with a model's id, or an empty text. An id is segments
// of letters, digits and . _ : - joined by slashes. No segment is empty, "." or "..". The
// id is not "catalog", and the last of several segments is neither "providers" nor
// "files", because routes have these names.
func idProblem(id string) string {
	if id == "" || len(id) > maxIDBytes {
		return fmt.Sprintf("must be 1 to %d bytes", maxIDBytes)
	}
	for segment := range strings.SplitSeq(id, "/") {
		switch {
		case segment == "" || segment == "." || segment == "..":
			return `must not have a segment that is empty, "." or ".."`
		case !isWord(segment, isIDByte):
			return "may only have A-Z a-z 0-9 . _ : - and / between segments"
		}
	}
	// A route ends in each of the segments, and takes an id that is the segment alone for an empty one.
	path := "/" + id
	if id == reservedID || strings.HasSuffix(path, providersSegment) || strings.HasSuffix(path, filesSegment) {
		return fmt.Sprintf("must not be %s or end in %s or %s", reservedID, providersSegment, filesSegment)
	}
	return ""
}

// words checks a list of names and returns it sorted, each name once.
func words(field string, list []string, maxWords int) ([]string, error) {
	if len(list) > maxWords {
		return nil, invalid(field, fmt.Sprintf("must name at most %d", maxWords))
	}
	sorted := slices.Clone(list)
	slices.Sort(sorted)
	for _, w := range sorted {
		if len(w) > maxWordBytes || !isWord(w, isWordByte) {
			return nil, invalid(field, fmt.Sprintf("must be of 1 to %d of a-z 0-9 . _ -", maxWordBytes))
		}
	}
	return slices.Compact(sorted), nil
}

// isWord reports whether text is not empty and has allowed bytes only.
func isWord(text string, allowed func(byte) bool) bool {
	for i := range len(text) {
		if !allowed(text[i]) {
			return false
		}
	}
	return text != ""
}

func isWordByte(b byte) bool {
	return 'a' <= b && b <= 'z' || '0' <= b && b <= '9' || b == '.' || b == '_' || b == '-'
}

func isIDByte(b byte) bool { return isWordByte(b) || 'A' <= b && b <= 'Z' || b == ':' }

func orElse[S ~string](s, instead S) S {
	if s == "" {
		return instead
	}
	return s
}

func invalid(field, problem string) error {
	return fault.New(fault.Invalid, fault.InvalidValue, "%s %s", field, problem).On(field)
}
