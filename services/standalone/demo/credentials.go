package demo

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
}
