package weights

import "math"

const (
	halfMax     = 65504
	halfInf     = 0x7c00
	halfMinExp  = -14 // exponent of the smallest normal half
	halfMantLen = 10
)

// halfFrom rounds v to the nearest IEEE half float, ties to even. Values
// beyond the range are clamped to the range, because a parameter must be finite.
func halfFrom(v float32) uint16 {
	sign := uint16(math.Float32bits(v)>>16) & 0x8000
	abs := math.Abs(float64(v))
	switch {
	case abs == 0:
		return sign
	case abs >= halfMax:
		return sign | (halfInf - 1)
	}
	_, exp := math.Frexp(abs) // abs = frac·2^exp with frac in [0.5, 1)
	exp = max(exp-1, halfMinExp)
	mantissa := uint16(math.RoundToEven(math.Ldexp(abs, halfMantLen-exp))) // 1024..2048, or less when subnormal
	// A normal mantissa carries its hidden bit into the exponent field, and a
	// mantissa that rounded up to 2048 carries one more, as it should.
	return sign | (uint16(exp-halfMinExp)<<halfMantLen + mantissa)
}

// halfTo is the exact value of a half float.
func halfTo(h uint16) float32 {
	exp, mantissa := int(h>>halfMantLen&0x1f), float64(h&0x3ff)
	if exp > 0 {
		mantissa += 1 << halfMantLen
		exp--
	}
	v := math.Ldexp(mantissa, exp+halfMinExp-halfMantLen)
	if h&0x8000 != 0 {
		v = math.Copysign(v, -1)
	}
	return float32(v)
}

// RoundHalf returns the half float nearest to v, ties to even. Values beyond the
// range are clamped to the range.
func RoundHalf(v float32) float32 {
	const (
		minNormal = 1.0 / (1 << -halfMinExp)
		dropped   = 23 - halfMantLen // mantissa bits that a half lacks
	)
	abs := float32(math.Abs(float64(v)))
	switch {
	case abs >= halfMax:
		abs = halfMax
	case abs < minNormal:
		// Between 0.5 and 1 a float32 has the spacing of subnormal halves.
		abs = (abs + 0.5) - 0.5
	default:
		abs = min(roundBits(abs, dropped), halfMax)
	}
	return float32(math.Copysign(float64(abs), float64(v)))
}

// RoundBrain returns the bfloat16 nearest to v, ties to even.
func RoundBrain(v float32) float32 { return roundBits(v, 16) }

// roundBits clears the last n bits of the mantissa, rounding to nearest, ties to even.
// A carry out of the mantissa raises the exponent, as it should.
func roundBits(v float32, n uint) float32 {
	bits := math.Float32bits(v)
	bits += 1<<(n-1) - 1 + bits>>n&1
	return math.Float32frombits(bits >> n << n)
}
