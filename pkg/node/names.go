package node

// Names of the services: in configurations, certificates, logs and traces.
const (
	Catalog       = "catalog"
	BillingLedger = "billing-ledger"
	Settlement    = "settlement"
	Router        = "router"
	ProviderHub   = "provider-hub"
	EdgeGateway   = "edge-gateway"
)

func names() []string {
	return []string{Catalog, BillingLedger, Settlement, Router, ProviderHub, EdgeGateway}
}
