package ids

import "fmt"

// MarshalText returns the canonical form; that of the zero id is empty. The error is
// always nil.
func (id Of[K]) MarshalText() ([]byte, error) {
	if id.IsZero() {
		return []byte{}, nil
	}
	return []byte(id.String()), nil
}

// UnmarshalText reads what MarshalText wrote, in either case. It returns ErrMalformed for
// all else, and leaves the id as it was then.
func (id *Of[K]) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*id = Of[K]{}
		return nil
	}
	read, err := parse[K](string(text))
	if err != nil {
		return fmt.Errorf("read id: %w", err)
	}
	*id = read
	return nil
}
