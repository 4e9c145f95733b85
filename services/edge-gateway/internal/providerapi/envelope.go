package providerapi

import (
	"encoding/json"
	"fmt"
	"math"
)

// enveloped returns the envelope of the catalog, the statistics and the collateral
// contract.
func enveloped(data any) ([]byte, error) {
	body, err := json.Marshal(struct {
		Code int    `json:"code"`
		Msg  string `json:"msg"`
		Data any    `json:"data"`
	}{Msg: "success", Data: data})
	if err != nil {
		return nil, fmt.Errorf("encode an answer: %w", err)
	}
	return body, nil
}

// finite returns a number that JSON can hold.
func finite(f float64) float64 {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return 0
	}
	return f
}
