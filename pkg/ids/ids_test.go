package ids

import (
	"bytes"
	"crypto/rand"
	"errors"
	"testing"
	"time"
)

func TestAnIDKeepsItsTimeAndSurvivesText(t *testing.T) {
	at := time.Date(2026, 11, 21, 23, 59, 59, 999e6, time.FixedZone("east", 3600))
	id, err := NewRequest(at, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if !id.Time().Equal(at) {
		t.Errorf("time: got %v, want %v", id.Time(), at)
	}
	if want := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC); !id.Day().Equal(want) {
		t.Errorf("day: got %v, want %v: the day is counted in UTC", id.Day(), want)
	}
	back, err := ParseRequest(id.String())
	if err != nil {
		t.Errorf("got the error %v, want none", err)
	} else if back != id {
		t.Errorf("back: got %v, want %v", back, id)
	}
	if upper, err := ParseRequest(string(bytes.ToUpper([]byte(id.String())))); err != nil {
		t.Errorf("upper case: got the error %v, want none", err)
	} else if upper != id {
		t.Errorf("upper case: got %v, want %v", upper, id)
	}
	if id[6]>>4 != 7 {
		t.Errorf("version and variant bits of %v: id[6]>>4: got %d, want 7", id, id[6]>>4)
	} else if id[8]>>6 != 2 {
		t.Errorf("version and variant bits of %v: id[8]>>6: got %d, want 2", id, id[8]>>6)
	}
}

func TestTextThatIsNoUUIDIsRefused(t *testing.T) {
	for _, s := range []string{
		"", "x", "00000000-0000-0000-0000-000000000000",
		"0192f0c0-0000-7000-8000-00000000000", "0192f0c0-0000-7000-8000-0000000000000",
		"0192f0c000007000800000000000000000aa", "0192f0c0-0000-7000-8000-00000000000g",
		"{192f0c0-0000-7000-8000-000000000000", "0192f0c0_0000_7000_8000_000000000000",
	} {
		if _, err := ParseProvider(s); !errors.Is(err, ErrMalformed) {
			t.Errorf("ParseProvider(%q): got %v, want ErrMalformed", s, err)
		}
	}
}

func TestShortRandomnessIsAnErrorAndNoID(t *testing.T) {
	id, err := NewAccount(time.Now(), bytes.NewReader(make([]byte, 9)))
	if err == nil {
		t.Error("got no error, want one")
	} else if !id.IsZero() {
		t.Errorf("id.IsZero(): got false, want true, with %v", id)
	}
}

func TestScanReadsWhatValueWrote(t *testing.T) {
	id, err := NewKey(time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	v, err := id.Value()
	if err != nil {
		t.Fatal(err)
	}
	var back KeyID
	if err := back.Scan(v); err != nil {
		t.Errorf("scan: got the error %v, want none", err)
	} else if back != id {
		t.Errorf("scan: back: got %v, want %v", back, id)
	}
	if err := back.Scan([16]byte(id)); err != nil {
		t.Errorf("scan of bytes: got the error %v, want none", err)
	} else if back != id {
		t.Errorf("scan of bytes: back: got %v, want %v", back, id)
	}
	if err := back.Scan(nil); err != nil {
		t.Errorf("NULL: got the error %v, want none", err)
	} else if !back.IsZero() {
		t.Errorf("NULL: back.IsZero(): got false, want true, with %v", back)
	}
	if err := back.Scan(7); err == nil {
		t.Error("a number was scanned as an id")
	}
}

func FuzzParseNeverPanicsAndRoundTrips(f *testing.F) {
	f.Add("0192f0c0-0000-7000-8000-000000000001")
	f.Fuzz(func(t *testing.T, s string) {
		id, err := ParseRequest(s)
		if err != nil {
			return
		}
		if again, err := ParseRequest(id.String()); err != nil {
			t.Errorf("%q, read and written: got the error %v, want none", s, err)
		} else if again != id {
			t.Errorf("%q, read and written: again: got %v, want %v", s, again, id)
		}
	})
}
