package node

// Names of the services: in configurations, certificates, logs and traces.
const (
	Catalog       = "catalog"
	BillingLedger = "billing-ledger"
	ChainSigner   = "chain-signer"
	Settlement    = "settlement"
	Router        = "router"
	ProviderHub   = "provider-hub"
	Verifier      = "verifier"
	EdgeGateway   = "edge-gateway"
)

// DefaultHub is the hub id of a process that was given none.
const DefaultHub = "hub-1"

// Names returns the names of all services, in the order in which one process starts them.
func Names() []string {
	return []string{Catalog, BillingLedger, ChainSigner, Settlement, Router, ProviderHub, Verifier, EdgeGateway}
}
