package statistic

// Declared is the statistic of family C (the function Declared) for a joined answer. text is
// the whole answer, which the declared tokens join to. Tokens whose bytes are not known for
// certain are not compared.
func (j Joined) Declared(declared []Position, text string, greedy bool) (Parts, Void) {
	reference := First(j.Judged())
	if v := Screen(reference); v != None {
		return nil, v
	}
	if v := checkDeclared(declared); v != None {
		return nil, v
	}
	theirs, ok := joinFront(declared, text)
	if !ok {
		return nil, NotJoined
	}
	ours := First(j.At[j.from:j.to])
	certain, last := 0, 0
	for _, at := range ours {
		if at >= 0 {
			certain, last = certain+1, at
		}
	}
	if 2*certain < len(ours) {
		return nil, NoReference
	}
	return compare(reference, declared, ours, theirs[:countTo(theirs, last)], certain, greedy)
}
