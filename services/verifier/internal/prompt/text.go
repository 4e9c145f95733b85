package prompt

// Text returns sentences in paragraphs, at least as long as asked in bytes, for what is no
// prompt of its own: the filling of long prompts. One id and purpose has one text, of
// which a shorter one is the beginning.
func (w *Writer) Text(purpose string, id ID, length int) string {
	return composer{bank: w.bank, dice: w.dice("text "+purpose, id)}.text(length)
}
