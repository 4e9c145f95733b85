package trees

// tree is a binary tree in an array: the children of node i are 2i+1 and 2i+2.
type tree []node

type node struct {
	feature int
	bin     uint8
	leaf    bool
	value   float64
}

func (t tree) value(row []uint8) float64 {
	at := 0
	for !t[at].leaf {
		if row[t[at].feature] <= t[at].bin {
			at = 2*at + 1
		} else {
			at = 2*at + 2
		}
	}
	return t[at].value
}
