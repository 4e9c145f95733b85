package bus

import (
	"slices"
	"strings"
)

// Names of the services in the table, the same as in pkg/node and in their certificates.
const (
	billingLedger = "billing-ledger"
	edgeGateway   = "edge-gateway"
	providerHub   = "provider-hub"
	router        = "router"
	verifier      = "verifier"
	settlement    = "settlement"
)

// HubPart stands for the id of a hub in the subjects of Table, and ProviderPart for the
// id of a provider.
const (
	HubPart      = "{hub}"
	ProviderPart = "{provider}"
)

// Row says which services use a subject. The server refuses every other service.
type Row struct {
	// Subject has HubPart in the place of a hub's id, and ProviderPart in the place of a
	// provider's.
	Subject string
	// Stream keeps the messages; empty for core messages.
	Stream string
	// Publish are the services that publish on it. A hub publishes on the
	// subject with its own id only.
	Publish []string
	// Subscribe are the services that receive it: as core messages, or as the stream's
	// consumers. A hub receives the subject with its own id only, unless AnyHub is set.
	Subscribe []string
	AnyHub    bool
	// Live is set where the subscribers of a stream's subject receive new messages as core
	// messages, and read the stream for the last message of each subject only.
	Live bool
}

// Table returns every subject of the marketplace. What the server allows each service
// follows from it (see Identity.Permissions).
func Table() []Row {
	return []Row{
		{Subject: "usage.v1.{hub}", Stream: UsageStream.Name,
			Publish: []string{providerHub}, Subscribe: []string{billingLedger, settlement, verifier}},
		// The ledger publishes the usage of requests whose hub is lost.
		{Subject: SubjectUsageLedger, Stream: UsageStream.Name,
			Publish: []string{billingLedger}, Subscribe: []string{billingLedger, settlement, verifier}},
		{Subject: "settled.v1.{hub}", Publish: []string{billingLedger}, Subscribe: []string{providerHub}},
		{Subject: "receipt.v1.{hub}", Stream: WorkReceiptStream.Name,
			Publish: []string{providerHub}, Subscribe: []string{billingLedger}},
		{Subject: "void.v1.{hub}", Stream: WorkReceiptStream.Name,
			Publish: []string{providerHub}, Subscribe: []string{billingLedger}},
		{Subject: "receipted.v1.{hub}", Publish: []string{billingLedger}, Subscribe: []string{providerHub}},
		{Subject: "presence.v1.{hub}", Publish: []string{providerHub},
			Subscribe: []string{providerHub, router, settlement, verifier}, AnyHub: true},
		{Subject: SubjectPresenceSync, Publish: []string{router, verifier}, Subscribe: []string{providerHub}},
		{Subject: "attempts.v1.{hub}", Publish: []string{providerHub}, Subscribe: []string{router, verifier}},
		// Gateways have "gateway" in the place of a hub's id.
		{Subject: "attempts.v1.gateway", Publish: []string{edgeGateway}, Subscribe: []string{router, verifier}},
		{Subject: SubjectKeyChanged, Publish: []string{billingLedger}, Subscribe: []string{edgeGateway}},
		{Subject: SubjectShapes, Publish: []string{edgeGateway}, Subscribe: []string{verifier}},
		{Subject: SubjectPenalty, Publish: []string{settlement}, Subscribe: []string{verifier}},
		{Subject: SubjectClaims, Publish: []string{verifier}, Subscribe: []string{verifier}},
		{Subject: SubjectWarmUp, Publish: []string{providerHub, router}, Subscribe: []string{providerHub, router}},
		{Subject: "trust.v1.{provider}", Stream: TrustStream.Name, Publish: []string{verifier},
			Subscribe: []string{router}, Live: true},
		{Subject: SubjectPayoutConfirmed, Stream: AccountStream.Name,
			Publish: []string{settlement}, Subscribe: []string{billingLedger}},
		{Subject: SubjectPenaltyCreated, Stream: AccountStream.Name,
			Publish: []string{settlement}, Subscribe: []string{billingLedger}},
		{Subject: SubjectStatusChanged, Stream: AccountStream.Name,
			Publish: []string{providerHub}, Subscribe: []string{billingLedger}},
		{Subject: SubjectAddresses, Stream: AccountStream.Name,
			Publish: []string{providerHub}, Subscribe: []string{billingLedger}},
		{Subject: SubjectNotedSettlement, Publish: []string{billingLedger}, Subscribe: []string{settlement}},
		{Subject: SubjectNotedHubs, Publish: []string{billingLedger}, Subscribe: []string{providerHub}},
		{Subject: SubjectTrustSync, Publish: []string{router}, Subscribe: []string{verifier}},
	}
}

// consumers are the durable consumers of the streams, by service. The service that owns a
// stream may change it. The others may only create it where it is missing, and look at
// it.
var consumers = map[string]map[string]string{
	UsageStream.Name: {billingLedger: DurableBilling, settlement: DurableSettlement,
		verifier: DurableVerifier},
	WorkReceiptStream.Name: {billingLedger: DurableBilling},
	AccountStream.Name:     {billingLedger: DurableBilling},
}

// Names of durable consumers.
const (
	DurableBilling    = "billing"
	DurableSettlement = "settlement"
	DurableVerifier   = "verifier"
)

// owners are the services that bring the streams to their settings.
var owners = map[string]string{
	UsageStream.Name: billingLedger, WorkReceiptStream.Name: billingLedger, AccountStream.Name: billingLedger,
	TrustStream.Name: verifier,
}

// Identity is what a connection is known as to the server.
type Identity struct {
	// Services run in the process; there is one in most.
	Services []string
	// HubID is the id of the hub among them.
	HubID string
}

// Name returns the user name of the identity. For one service it is the name in its
// certificate: the service, or <hub id>.provider-hub.
func (id Identity) Name() string {
	names := make([]string, len(id.Services))
	for i, service := range id.Services {
		names[i] = service
		if service == providerHub {
			names[i] = HubName(id.HubID)
		}
	}
	return strings.Join(names, "+")
}

// HubName returns the second name in the certificate of a hub, beside the service, so
// that the hub is known as itself and not as any of the hubs.
func HubName(hubID string) string { return hubID + "." + providerHub }

// ParseIdentity is the inverse of Name.
func ParseIdentity(name string) (Identity, bool) {
	var id Identity
	for part := range strings.SplitSeq(name, "+") {
		hub, isHub := strings.CutSuffix(part, "."+providerHub)
		switch {
		case isHub && id.HubID == "" && ValidHubID(hub):
			id.HubID, part = hub, providerHub
		case isHub || part == providerHub || !slices.Contains(services(), part):
			return Identity{}, false
		}
		if slices.Contains(id.Services, part) {
			return Identity{}, false
		}
		id.Services = append(id.Services, part)
	}
	return id, true
}

// services returns all services of the table.
func services() []string {
	var all []string
	for _, row := range Table() {
		all = append(append(all, row.Publish...), row.Subscribe...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// ValidHubID reports whether text may be a hub's id: 1 to 32 of a-z, 0-9 and -. "ledger"
// and "gateway" are not, because they stand in the place of a hub's id.
func ValidHubID(text string) bool {
	return text != "ledger" && text != "gateway" && len(text) > 0 && len(text) <= 32 &&
		strings.Trim(text, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// inbox returns the prefix of the subjects on which a service receives replies. No other
// service may subscribe to them.
func (id Identity) inbox(service string) string {
	if service == providerHub {
		return "_INBOX_" + providerHub + "_" + id.HubID
	}
	return "_INBOX_" + service
}

// Permissions returns the subjects on which the identity may publish, and to which it may
// subscribe: those of the table, what JetStream needs for them, and its own inbox. All
// else is refused.
func (id Identity) Permissions() (publish, subscribe []string) {
	for _, service := range id.Services {
		for _, row := range Table() {
			own := row.Subject
			if service == providerHub {
				own = strings.ReplaceAll(own, HubPart, id.HubID)
			} else {
				own = strings.ReplaceAll(own, HubPart, "*")
			}
			own = strings.ReplaceAll(own, ProviderPart, "*")
			if slices.Contains(row.Publish, service) {
				publish = append(publish, own)
			}
			if (row.Stream == "" || row.Live) && slices.Contains(row.Subscribe, service) {
				if row.AnyHub {
					own = strings.ReplaceAll(row.Subject, HubPart, "*")
				}
				subscribe = append(subscribe, own)
			}
			if row.Stream != "" {
				publish = append(publish, streamCalls(service, row)...)
			}
		}
		subscribe = append(subscribe, id.inbox(service)+".>")
	}
	return distinct(publish), distinct(subscribe)
}

// streamCalls returns the subjects of JetStream's API that a service needs for the stream
// of a row.
func streamCalls(service string, row Row) []string {
	var calls []string
	if slices.Contains(row.Publish, service) || slices.Contains(row.Subscribe, service) {
		calls = append(calls, "$JS.API.STREAM.INFO."+row.Stream, "$JS.API.STREAM.CREATE."+row.Stream)
		if service == owners[row.Stream] {
			calls = append(calls, "$JS.API.STREAM.UPDATE."+row.Stream)
			// The owner tells operators how far the consumers lag.
			for _, durable := range consumers[row.Stream] {
				calls = append(calls, "$JS.API.CONSUMER.INFO."+row.Stream+"."+durable)
			}
		}
	}
	if durable := consumers[row.Stream][service]; durable != "" && slices.Contains(row.Subscribe, service) {
		at := row.Stream + "." + durable
		calls = append(calls,
			"$JS.API.CONSUMER.CREATE."+at, "$JS.API.CONSUMER.CREATE."+at+".>",
			"$JS.API.CONSUMER.INFO."+at, "$JS.API.CONSUMER.DELETE."+at, "$JS.API.CONSUMER.MSG.NEXT."+at,
			"$JS.API.STREAM.MSG.GET."+row.Stream, "$JS.ACK."+at+".>")
	}
	if row.Live && slices.Contains(row.Publish, service) {
		// The publisher of a fact looks at what it replaces where the stream is nearly full.
		calls = append(calls, "$JS.API.STREAM.MSG.GET."+row.Stream)
	}
	if row.Live && slices.Contains(row.Subscribe, service) {
		// ReadLast uses a consumer with a random name, which it deletes.
		calls = append(calls,
			"$JS.API.CONSUMER.CREATE."+row.Stream+".>", "$JS.API.CONSUMER.INFO."+row.Stream+".*",
			"$JS.API.CONSUMER.DELETE."+row.Stream+".*", "$JS.API.CONSUMER.MSG.NEXT."+row.Stream+".*")
	}
	return calls
}

func distinct(list []string) []string {
	slices.Sort(list)
	return slices.Compact(list)
}

// mayUpdate reports whether the identity may change an existing stream. A connection
// without an identity may do everything.
func (id *Identity) mayUpdate(stream string) bool {
	return id == nil || slices.Contains(id.Services, owners[stream])
}
