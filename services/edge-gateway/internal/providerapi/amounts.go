package providerapi

import (
	"fmt"
	"strconv"
	"strings"
)

// wholeTokens writes an amount of a token's smallest unit in whole tokens.
func wholeTokens(units string, decimals int32) string {
	if pad := int(decimals) + 1 - len(units); pad > 0 {
		units = strings.Repeat("0", pad) + units
	}
	whole, rest := units[:len(units)-int(decimals)], strings.TrimRight(units[len(units)-int(decimals):], "0")
	if rest == "" {
		return whole
	}
	return whole + "." + rest
}

func wholeNumber(units string, decimals int32) float64 {
	n, _ := strconv.ParseFloat(wholeTokens(units, decimals), 64) // settlement writes digits
	return n
}

// smallestUnits reads an amount in whole tokens; ok is false for one with more decimals than the token has.
func smallestUnits(amount string, decimals int32) (units string, ok bool) {
	whole, rest, _ := strings.Cut(amount, ".")
	rest = strings.TrimRight(rest, "0")
	if len(rest) > int(decimals) {
		return "", false
	}
	units = strings.TrimLeft(whole+rest+strings.Repeat("0", int(decimals)-len(rest)), "0")
	return units, units != ""
}

// hexText writes bytes as 0x and digits.
func hexText(b []byte) string { return fmt.Sprintf("0x%x", b) }
