package card

// Tariff is what a processor keeps of a charge: FixedCents and BasisPoints of the whole.
type Tariff struct {
	Fixed       Cents
	BasisPoints int64
}

// Valid reports whether a fee can cover the tariff.
func (t Tariff) Valid() bool {
	return t.Fixed >= 0 && t.Fixed <= 1_00_00 && t.BasisPoints >= 0 && t.BasisPoints < 5_000
}

// whole are the basis points of a whole.
const whole = 10_000

// Fee is the smallest fee that covers what the processor keeps of amount and fee together:
// ⌈(amount + fixed) ÷ (1 − share)⌉ − amount. Collateral has none.
func (t Tariff) Fee(amount Cents) Cents {
	share := Cents(whole - t.BasisPoints)
	return ((amount+t.Fixed)*whole+share-1)/share - amount
}

// Cost is what the processor keeps of a charge, rounded to the nearest cent.
func (t Tariff) Cost(total Cents) Cents {
	return (total*Cents(t.BasisPoints)+whole/2)/whole + t.Fixed
}
