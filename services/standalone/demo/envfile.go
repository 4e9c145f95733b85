package demo

import (
	"fmt"
	"strings"
)

// Environment is what scripts need to talk to a running demo. The base URL has
// no /v1 and the WebSocket URL no /ws.
type Environment struct {
	BaseURL     string
	WSURL       string
	APIKey      string
	ProviderKey string
	AdminURL    string
	AdminToken  string
	DatabaseURL string
	MetricsURL  string
	Model       string
	// ChainURLs are the JSON-RPC addresses of the development chains by their numbers: "8453=http://…,254=http://…".
	// Empty without chains.
	ChainURLs string
	// ConsumerPassword is that of ConsumerEmail; empty where no user has the demo's account.
	ConsumerPassword string
	// OwnerPassword is that of OwnerEmail; empty where nobody owns the demo's provider.
	OwnerPassword string
	// OperatorPassword is that of OperatorName, and OperatorSecret makes the operator's codes; both are empty where
	// the demo has no operator.
	OperatorPassword, OperatorSecret string
}

// File is the environment as a file that shells and make can read.
func (e Environment) File() []byte {
	var b strings.Builder
	for _, v := range [][2]string{
		{"SVC_BASE_URL", e.BaseURL}, {"SVC_WS_URL", e.WSURL}, {"SVC_API_KEY", e.APIKey},
		{"SVC_PROVIDER_KEY", e.ProviderKey}, {"SVC_ADMIN_URL", e.AdminURL}, {"SVC_ADMIN_TOKEN", e.AdminToken},
		{"SVC_DATABASE_URL", e.DatabaseURL}, {"SVC_METRICS_URL", e.MetricsURL}, {"SVC_MODEL", e.Model},
		{"SVC_CHAIN_URLS", e.ChainURLs}, {"SVC_CONSUMER_EMAIL", ConsumerEmail},
		{"SVC_CONSUMER_PASSWORD", e.ConsumerPassword}, {"SVC_OWNER_EMAIL", OwnerEmail},
		{"SVC_OWNER_PASSWORD", e.OwnerPassword}, {"SVC_BENEFICIARY", Beneficiary},
		{"SVC_OPERATOR_NAME", OperatorName}, {"SVC_OPERATOR_PASSWORD", e.OperatorPassword},
		{"SVC_OPERATOR_SECRET", e.OperatorSecret},
	} {
		fmt.Fprintf(&b, "%s=%s\n", v[0], quote(v[1]))
	}
	return []byte(b.String())
}

// ReadFile returns the variables of a file that File has made.
func ReadFile(text []byte) map[string]string {
	variables := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		if !ok {
			continue
		}
		if whole, quoted := strings.CutPrefix(value, "'"); quoted {
			value = strings.ReplaceAll(strings.TrimSuffix(whole, "'"), `'\''`, "'")
		}
		variables[name] = value
	}
	return variables
}

// quote leaves plain values as they are, for readers that know no quotes.
func quote(value string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_:/.@?=%+,-[]"
	if strings.Trim(value, plain) == "" {
		return value
	}
	return "'" + strings.ReplaceAll(value, "'", `'\''`) + "'"
}

// Curl is a command to paste: a streamed answer.
func (e Environment) Curl() string {
	return fmt.Sprintf(`curl -N %s/v1/chat/completions \
  -H 'Authorization: Bearer %s' \
  -H 'Content-Type: application/json' \
  -d '{"model":"%s","stream":true,"messages":[{"role":"user","content":"Hello! Who are you?"}]}'`,
		e.BaseURL, e.APIKey, e.Model)
}
