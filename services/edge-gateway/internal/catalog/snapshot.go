package catalog

import (
	"strconv"
	"strings"
	"time"

	"svc.internal/pkg/jsonscan"
	catalogv1 "svc.internal/proto/svc/catalog/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"
)

// ownedByUs is owned_by of models whose id names no vendor.
const ownedByUs = "svc"

// newSnapshot reads what the catalog sent. Models out of service are unknown.
func newSnapshot(models []*catalogv1.Model) *snapshot {
	s := &snapshot{byName: make(map[string]*Model, 2*len(models)), objects: make(map[string][]byte, 2*len(models))}
	var callable, all [][]byte
	for _, m := range models {
		if !m.GetActive() {
			continue
		}
		object := appendObject(nil, m)
		all = append(all, object)
		if m.GetSupply().GetOnlineProviders() > 0 {
			callable = append(callable, object)
		}
		s.byName[m.GetModelId()] = newModel(m)
		s.objects[m.GetModelId()] = object
	}
	for _, m := range models {
		s.alias(m)
	}
	s.callable, s.all = list(callable), list(all)
	return s
}

// alias makes a model known by its slug too, unless that is another's id.
func (s *snapshot) alias(m *catalogv1.Model) {
	slug := m.GetSlug()
	if _, taken := s.byName[slug]; taken || slug == "" || !m.GetActive() {
		return
	}
	s.byName[slug] = s.byName[m.GetModelId()]
	s.objects[slug] = s.objects[m.GetModelId()]
}

func newModel(m *catalogv1.Model) *Model {
	window := max(m.GetContextLength(), m.GetSupply().GetMaxReportedContextLength())
	out := m.GetMaxOutputTokens()
	if out <= 0 {
		out = window
	}
	var leaves time.Time
	if m.GetDeprecatedAt() != nil {
		leaves = m.GetDeprecatedAt().AsTime()
	}
	return &Model{
		ID:              m.GetModelId(),
		Slug:            m.GetSlug(),
		Category:        categories[m.GetCategory()],
		Endpoint:        endpoints[m.GetCategory()],
		DeprecatedAt:    leaves,
		Online:          m.GetSupply().GetOnlineProviders() > 0,
		ContextLength:   window,
		MaxOutputTokens: out,
	}
}

var endpoints = map[catalogv1.Category]hubv1.Endpoint{
	catalogv1.Category_CATEGORY_LLM:        hubv1.Endpoint_ENDPOINT_CHAT,
	catalogv1.Category_CATEGORY_MULTIMODAL: hubv1.Endpoint_ENDPOINT_CHAT,
	catalogv1.Category_CATEGORY_EMBEDDING:  hubv1.Endpoint_ENDPOINT_EMBEDDINGS,
	catalogv1.Category_CATEGORY_IMAGE:      hubv1.Endpoint_ENDPOINT_IMAGES,
	catalogv1.Category_CATEGORY_AUDIO:      hubv1.Endpoint_ENDPOINT_TRANSCRIPTIONS,
}

var categories = map[catalogv1.Category]string{
	catalogv1.Category_CATEGORY_LLM:        "llm",
	catalogv1.Category_CATEGORY_MULTIMODAL: "multimodal",
	catalogv1.Category_CATEGORY_EMBEDDING:  "embedding",
	catalogv1.Category_CATEGORY_IMAGE:      "image",
	catalogv1.Category_CATEGORY_AUDIO:      "audio",
}

// appendObject appends the model as OpenAI lists it.
func appendObject(dst []byte, m *catalogv1.Model) []byte {
	dst = append(dst, `{"id":`...)
	dst = jsonscan.AppendString(dst, m.GetModelId())
	dst = append(dst, `,"object":"model","created":`...)
	dst = strconv.AppendInt(dst, m.GetCreatedAt().GetSeconds(), 10)
	dst = append(dst, `,"owned_by":`...)
	dst = jsonscan.AppendString(dst, ownedBy(m.GetModelId()))
	dst = append(dst, `,"context_length":`...)
	dst = strconv.AppendInt(dst, m.GetContextLength(), 10)
	return append(dst, '}')
}

func ownedBy(id string) string {
	if vendor, _, found := strings.Cut(id, "/"); found {
		return vendor
	}
	return ownedByUs
}

func list(objects [][]byte) []byte {
	out := []byte(`{"object":"list","data":[`)
	for i, object := range objects {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, object...)
	}
	return append(out, "]}"...)
}
