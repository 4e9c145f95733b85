package demo

import (
	"encoding/json"
	"fmt"

	"svc.internal/services/standalone/localdata"
)

// stateFile remembers keys that are shown only once.
const stateFile = "demo.json"

// Credentials are the accounts and keys that the demo made.
type Credentials struct {
	ConsumerKey string `json:"consumer_key"`
	ProviderKey string `json:"provider_key"`
	AccountID   string `json:"account_id"`
	ProviderID  string `json:"provider_id"`
	// Those of the reference are empty in the file of an earlier release.
	ReferenceID  string `json:"reference_id"`
	ReferenceKey string `json:"reference_key"`
	// ConsumerPassword is that of the user who has the account; empty in the file of an earlier release.
	ConsumerPassword string `json:"consumer_password"`
	// OwnerPassword is that of the user who owns the provider; empty where nobody does.
	OwnerPassword string `json:"owner_password"`
	// OperatorPassword and OperatorSecret, which makes codes, are those of the operator; empty where the demo has none.
	OperatorPassword string `json:"operator_password"`
	OperatorSecret   string `json:"operator_secret"`
}

// remember keeps the credentials for the next start.
func remember(dir *localdata.Dir, known Credentials) error {
	text, err := json.Marshal(known)
	if err != nil {
		return fmt.Errorf("remember the demo: %w", err)
	}
	return dir.Write(text, stateFile)
}
