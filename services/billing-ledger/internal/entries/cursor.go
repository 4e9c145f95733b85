package entries

import (
	"encoding/base64"
	"encoding/binary"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
)

// Place is the place of an entry in the list.
type Place struct {
	At time.Time
	ID ids.EntryID
}

// cursorBytes are those of a cursor: the time in microseconds since 1970, then the id.
const cursorBytes = 8 + 16

// writeCursor returns the cursor behind a place.
func writeCursor(p Place) string {
	raw := binary.BigEndian.AppendUint64(make([]byte, 0, cursorBytes), uint64(p.At.UnixMicro()))
	return base64.RawURLEncoding.EncodeToString(append(raw, p.ID[:]...))
}

// Times that a cursor may have, so that the database reads each of them.
var (
	firstTime = time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC)
	lastTime  = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
)

// readCursor reads what writeCursor wrote; the zero place for an empty text.
func readCursor(text string) (p Place, err error) {
	if text == "" {
		return Place{}, nil
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(raw) != cursorBytes {
		return Place{}, invalid("cursor", "cursor must be next_cursor of the page before")
	}
	p.At = time.UnixMicro(int64(binary.BigEndian.Uint64(raw))).UTC()
	if p.At.Before(firstTime) || p.At.After(lastTime) {
		return Place{}, invalid("cursor", "cursor must be next_cursor of the page before")
	}
	copy(p.ID[:], raw[8:])
	return p, nil
}

// ParseTime reads a time of a filter; the zero time for an empty text.
func ParseTime(field, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil || at.Before(firstTime) || at.After(lastTime) {
		return time.Time{}, invalid(field, "%s must be a time such as 2026-11-30T12:00:00Z", field)
	}
	return at.UTC(), nil
}

func invalid(field, format string, args ...any) error {
	return fault.New(fault.Invalid, fault.InvalidValue, format, args...).On(field)
}
