package statistic

import (
	"strings"
	"unicode/utf8"
)

// blanks are the characters that show nothing: white space, control and format characters,
// fillers, variation selectors, and U+FFFD, which stands where an answer ended within a
// character. The list is Unicode 15's (White_Space, Default_Ignorable_Code_Point, Cc) and
// stands here, because a replay must not depend on the tables of the Go that runs it.
var blanks = [...][2]rune{
	{0x0000, 0x0020}, {0x007f, 0x00a0}, {0x00ad, 0x00ad}, {0x034f, 0x034f}, {0x061c, 0x061c}, {0x115f, 0x1160},
	{0x1680, 0x1680}, {0x17b4, 0x17b5}, {0x180b, 0x180f}, {0x2000, 0x200f}, {0x2028, 0x202f}, {0x205f, 0x206f},
	{0x2800, 0x2800}, {0x3000, 0x3000}, {0x3164, 0x3164}, {0xfe00, 0xfe0f}, {0xfeff, 0xfeff}, {0xffa0, 0xffa0},
	{0xfff0, 0xfffb}, {utf8.RuneError, utf8.RuneError}, {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a}, {0xe0000, 0xe0fff},
}

func blank(r rune) bool {
	for _, of := range blanks {
		if r >= of[0] && r <= of[1] {
			return true
		}
	}
	return false
}

// Trim returns an answer without the blanks around it. Chat templates cut white space off
// the last message, so that a reference may not see what the provider sent there. What is
// joined is therefore the trimmed answer.
func Trim(answer string) string {
	return strings.TrimFunc(answer, blank)
}

// Scored returns what a reference is asked to score: the answer without the blanks behind it.
// Those before it stay, because models whose template ends without a blank begin with one,
// and what follows is less likely without it.
func Scored(answer string) string {
	return strings.TrimRightFunc(answer, blank)
}

// isBlank reports whether a token has a text, and blanks alone.
func isBlank(token string) bool { return token != "" && Trim(token) == "" }
