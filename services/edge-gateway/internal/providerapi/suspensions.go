package providerapi

import (
	"strings"
	"time"

	hubv1 "svc.internal/proto/svc/hub/v1"
)

// suspension is one cause of a suspension, in plain words.
type suspension struct {
	Cause   string     `json:"cause"`
	Since   *time.Time `json:"since"`
	Meaning string     `json:"meaning"`
	Reason  string     `json:"reason"`
}

func suspensionsOf(p *hubv1.Provider) []suspension {
	list := make([]suspension, 0, len(p.GetSuspensions()))
	for _, s := range p.GetSuspensions() {
		list = append(list, suspension{
			Cause: strings.ToLower(strings.TrimPrefix(s.GetCause().String(), "SUSPENSION_CAUSE_")),
			Since: moment(s.GetSince()), Meaning: s.GetMeaning(), Reason: s.GetReason(),
		})
	}
	return list
}
