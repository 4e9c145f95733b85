// Package penalty decides the life of penalties: what the verifier proposes to take from
// a provider's collateral.
//
// A penalty names a share of the collateral in basis points (parts of 10,000). Its parts (package slash) have the
// amounts, which are fixed when it is opened. It is open to appeal for Window, measured by the database's clock
// from the moment at which it is recorded. Its end is exclusive: an appeal at that very moment is too late, and the
// penalty may be executed. An appeal stops the clock, and an operator decides. An operator may also reverse a
// penalty that nobody appealed, and a penalty that is upheld and not executed yet.
//
// Executed means that the share is due: its parts are taken then. While the time to appeal
// is not surely over on some chain, the penalty is not executed, and an appeal of a depositor
// there is one of the provider.
//
// Several penalties of one provider may stand at once, within the bounds of Draft.fits.
//
// Every change is a decision under the lock of the penalty's row. So of two changes at
// once the second sees the first and is allowed, repeated or refused by the table of
// transitions. The database refuses what the table does not have.
package penalty

import (
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/services/settlement/internal/printable"
)

// Window is how long a provider may appeal.
const Window = 48 * time.Hour

// Bounds of what is said. Texts are counted in characters, the model's id in bytes.
const (
	// MaxShare is the largest share that the ladder of consequences has, in parts of
	// 10,000. Whoever may open penalties cannot take more at once.
	MaxShare      = 3_000
	maxModel      = 256
	maxSummary    = 500
	maxAppeal     = 4_000
	maxResolution = 500
)

// kindOfID makes ID a type of its own.
type kindOfID struct{}

// ID names one penalty. It is the verdict's, a UUID of version 7.
type ID = ids.Of[kindOfID]

// ParseID reads a penalty's id.
func ParseID(text string) (ID, error) {
	var id ID
	if err := id.Scan(text); err != nil {
		return ID{}, ids.ErrMalformed
	}
	if id[6]>>4 != 7 || id[8]>>6 != 2 {
		return ID{}, ids.ErrMalformed
	}
	return id, nil
}

// Kind says what a provider is penalised for.
type Kind string

// The kinds.
const (
	// Misrepresentation is a model, a quantization or a window that is not the stated one.
	Misrepresentation Kind = "misrepresentation"
	// Benchmark is a failed benchmark that followed another.
	Benchmark Kind = "benchmark"
)

// Draft is what the verifier says of a penalty. It never changes.
type Draft struct {
	ID         ID
	ProviderID ids.ProviderID
	ModelID    string
	Kind       Kind
	// ShareBasisPoints are parts of 10,000 of the collateral at the penalty's opening.
	ShareBasisPoints int32
	// Removes reports whether the provider was removed from the network with it.
	Removes bool
	// Family is the family of evidence that led, as the verifier names it; empty for a penalty of before the field.
	Family string
	// Summary is what was measured, for people.
	Summary      string
	EvidenceHash [32]byte
}

// Penalty is one penalty as it stands. Times that have not come are zero.
type Penalty struct {
	Draft
	State    State
	Revision int64
	// AppealUntil is Window after OpenedAt.
	OpenedAt, AppealUntil time.Time
	AppealText            string
	AppealedAt            time.Time
	// Resolution is an operator's reason.
	Resolution string
	ResolvedAt time.Time
	// ExecutedAt is since when the share is due.
	ExecutedAt time.Time
	// AppealedOnChain reports whether a depositor appealed on a chain, where there may be time until later.
	AppealedOnChain bool
	// ClockRuns reports whether, on some chain, the time to appeal is not surely over.
	ClockRuns bool
}

// families are the names that a family may have. The verifier knows which there are, and may know more than settlement.
var families = regexp.MustCompile(`^[a-z_]{0,32}$`)

// same reports whether two drafts say the same. One that names no family says the same as one that does.
func (d Draft) same(o Draft) bool {
	if d.Family == "" || o.Family == "" {
		d.Family, o.Family = "", ""
	}
	return d == o
}

// check fails with invalid_value.
func (d Draft) check() error {
	switch {
	case d.Kind != Misrepresentation && d.Kind != Benchmark:
		return invalid("kind", "must be %s or %s", Misrepresentation, Benchmark)
	case d.ShareBasisPoints < 1 || d.ShareBasisPoints > MaxShare:
		return invalid("share_basis_points", "must be 1 to %d", MaxShare)
	case !families.MatchString(d.Family):
		return invalid("family", "must be at most 32 of a-z and _")
	case len(d.ModelID) > maxModel || !printable.Within(d.ModelID, maxModel):
		return invalid("model_id", "must be 1 to %d printable bytes", maxModel)
	}
	return checkText("summary", d.Summary, maxSummary)
}

// checkText requires 1 to limit printable characters.
func checkText(field, text string, limit int) error {
	if !printable.Within(text, limit) {
		return invalid(field, "must be 1 to %d printable characters", limit)
	}
	return nil
}

// checkAppeal requires 1 to maxAppeal characters that are printable, tabs or ends of
// lines, and not all white space.
func checkAppeal(text string) error {
	lines := strings.NewReplacer("\n", " ", "\r", " ", "\t", " ").Replace(text)
	if n := utf8.RuneCountInString(text); n < 1 || n > maxAppeal || strings.TrimSpace(text) == "" ||
		!utf8.ValidString(text) || strings.ContainsFunc(lines, func(r rune) bool { return !unicode.IsGraphic(r) }) {
		return invalid("text", "must be 1 to %d characters", maxAppeal)
	}
	return nil
}

func invalid(field, format string, args ...any) error {
	return fault.New(fault.Invalid, fault.InvalidValue, field+" "+format, args...).On(field)
}
