package catalog

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"svc.internal/pkg/jsonscan"
	catalogv1 "svc.internal/proto/svc/catalog/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"
)

// ownedByUs is owned_by of models whose id names no vendor.
const ownedByUs = "svc"

// newSnapshot reads what the catalog has sent. before is the snapshot before it; nil for
// none. Models out of service are left out, and so are models whose time to leave has
// come.
func newSnapshot(models []*catalogv1.Model, before *snapshot, now time.Time) *snapshot {
	s := &snapshot{
		models: models, byName: make(map[string]*Model, 2*len(models)), objects: make(map[string][]byte, 2*len(models)),
		left: map[string]*Model{},
	}
	var callable, all [][]byte
	for _, m := range models {
		if !m.GetActive() {
			continue
		}
		model := newModel(m)
		if leaves := model.DeprecatedAt; !leaves.IsZero() {
			if !now.Before(leaves) {
				s.left[model.ID] = model
				continue
			}
			if s.until.IsZero() || leaves.Before(s.until) {
				s.until = leaves
			}
		}
		if !model.Online {
			model.OfflineSince = before.offlineSince(model.ID, now)
		}
		object := appendObject(nil, m)
		all = append(all, object)
		if m.GetSupply().GetOnlineProviders() > 0 {
			callable = append(callable, object)
		}
		s.byName[m.GetModelId()] = model
		s.objects[m.GetModelId()] = object
	}
	for _, m := range models {
		s.alias(m)
	}
	s.callable, s.all = list(callable), list(all)
	return s
}

// offlineSince returns the time since which a model without a provider has had none.
func (s *snapshot) offlineSince(id string, now time.Time) time.Time {
	switch {
	case s == nil:
		return now
	case s.byName[id] == nil:
		return time.Unix(0, 0)
	case s.byName[id].Online:
		return now
	}
	return s.byName[id].OfflineSince
}

// alias makes a model known by its slug too, unless the slug is another model's id.
func (s *snapshot) alias(m *catalogv1.Model) {
	slug := m.GetSlug()
	if _, taken := s.byName[slug]; taken || slug == "" || !m.GetActive() {
		return
	}
	if model := s.left[m.GetModelId()]; model != nil {
		if s.left[slug] == nil {
			s.left[slug] = model
		}
		return
	}
	s.byName[slug] = s.byName[m.GetModelId()]
	s.objects[slug] = s.objects[m.GetModelId()]
}

// hiddenReasoning is the capability of models that bill for thoughts which they
// do not show.
const hiddenReasoning = "hidden_reasoning"

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
		ID:           m.GetModelId(),
		Slug:         m.GetSlug(),
		Category:     categories[m.GetCategory()],
		Endpoint:     endpoints[m.GetCategory()],
		DeprecatedAt: leaves,
		Successor:    m.GetSuccessor(),
		Online:       m.GetSupply().GetOnlineProviders() > 0,
		TakesResponseFormat: len(m.GetSupportedParameters()) == 0 ||
			slices.Contains(m.GetSupportedParameters(), "response_format"),
		ContextLength:   window,
		MaxOutputTokens: out,
		HiddenReasoning: slices.Contains(m.GetCapabilities(), hiddenReasoning),
		Gateway:         m.GetKind() == catalogv1.Kind_KIND_GATEWAY,
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

// listOf lists the models that may returns true for, in the order of the catalog.
func (s *snapshot) listOf(all bool, may func(id string) bool) []byte {
	var objects [][]byte
	for _, m := range s.models {
		model := s.byName[m.GetModelId()]
		if model != nil && model.ID == m.GetModelId() && (all || model.Online) && may(model.ID) {
			objects = append(objects, s.objects[model.ID])
		}
	}
	return list(objects)
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
