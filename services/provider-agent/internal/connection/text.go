package connection

// clean keeps the characters that a log can show in one line.
func clean(text string) string {
	out := make([]rune, 0, min(len(text), maxError))
	for _, r := range text {
		if r >= ' ' && r != 0x7f && len(out) < maxError {
			out = append(out, r)
		}
	}
	return string(out)
}

// cut shortens a text to bytes of whole UTF-8.
func cut(text string, size int) string {
	if len(text) <= size {
		return text
	}
	for size > 0 && text[size]&0xC0 == 0x80 {
		size--
	}
	return text[:size]
}
