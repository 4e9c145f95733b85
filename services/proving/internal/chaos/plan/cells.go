package plan

import (
	"regexp"

	"svc.internal/pkg/crash"
	"svc.internal/services/proving/internal/fleet"
)

// The moments of a request, in their order.
const (
	beforeHold = "before-hold" // nothing exists yet
	admitted   = "admitted"    // the owner of the account's slice has admitted it from memory, and told nobody
	writing    = "writing"     // its hold is about to be written, and the gateway may have it already
	written    = "written"     // the hold is written from its slice, and the owner does not know that
	held       = "held"        // the gateway has it, and nothing is dispatched
	streaming  = "streaming"   // a part of the answer is with the client
	final      = "final"       // the usage is on the hub's disk, and nowhere else
	answered   = "answered"    // the client has everything, and the gateway has reported nothing
	published  = "published"   // the usage is in NATS, and not settled
	settled    = "settled"     // it is settled, and nobody who waits for that has heard of it
)

// where are the crash points of the moments.
var where = map[string]string{
	beforeHold: "billing.admit.before_commit", admitted: "billing.slice.admitted",
	writing: "billing.turn.before_commit", written: "billing.turn.committed", held: "gateway.admitted",
	streaming: "gateway.relaying", final: "hub.final.synced", answered: "gateway.answered",
	published: "billing.settle.before_commit", settled: "billing.settle.committed",
}

// special are the crash points of moments that are at another place for some programs.
var special = map[string]string{
	fleet.Hub + published: "hub.usage.published", fleet.Hub + settled: "hub.settled.marked",
	fleet.Settlement + published: "settlement.line.before_commit", fleet.Settlement + settled: "settlement.line.committed",
}

func point(program, when string) string {
	if at := special[program+when]; at != "" {
		return at
	}
	return where[when]
}

// Cells returns all cells.
func Cells() []Cell {
	var cells []Cell
	add := func(kind Kind, what, program, to string, moments ...string) {
		for _, when := range moments {
			cells = append(cells, Cell{What: what, When: when, Kind: kind, Program: program, To: to,
				Point: point(program, when)})
		}
	}
	all := []string{beforeHold, held, streaming, final, published, settled}
	fromHold := all[1:]
	add(Kill, "gateway", fleet.Gateway, "", append([]string{answered}, all...)...)
	add(Kill, "router", fleet.Router, "", all...)
	add(Kill, "hub", fleet.Hub, "", fromHold...)
	add(Lose, "hub-lost", fleet.Hub, "", fromHold...)
	add(Kill, "agent", fleet.Agent, "", fromHold...)
	add(Lose, "agent-lost", fleet.Agent, "", streaming, published)
	add(Kill, "nats", fleet.NATS, "", all...)
	add(Lose, "nats-wiped", fleet.NATS, "", all...)
	add(Kill, "billing", fleet.Billing, "", append([]string{admitted, writing, written}, all...)...)
	add(Kill, "postgres", fleet.Postgres, "", all...)
	add(Kill, "settlement", fleet.Settlement, "", published, settled)
	add(Kill, "catalog", fleet.Catalog, "", all...)
	add(Kill, "verifier", fleet.Verifier, "", streaming)
	add(Stop, "stop-gateway", fleet.Gateway, "", streaming)
	add(Stop, "stop-router", fleet.Router, "", streaming)
	add(Stop, "stop-hub", fleet.Hub, "", streaming, final)
	add(Stop, "stop-agent", fleet.Agent, "", streaming)
	add(Stop, "stop-nats", fleet.NATS, "", streaming)
	// An owner of slices stands still for longer than it counts as alive, and finds them stranded.
	add(Stop, "stop-billing", fleet.Billing, "", admitted, writing, streaming, published)
	add(Stop, "stop-postgres", fleet.Postgres, "", streaming, published)
	add(Stop, "stop-settlement", fleet.Settlement, "", published)
	add(Stop, "stop-catalog", fleet.Catalog, "", streaming)
	add(Stop, "stop-verifier", fleet.Verifier, "", streaming)
	add(Cut, "cut-agent-hub", fleet.Agent, fleet.Hub, streaming)
	add(Cut, "cut-gateway-hub", "", fleet.Hub, streaming)
	add(Cut, "cut-gateway-billing", fleet.Gateway, fleet.Billing, answered)
	add(Cut, "cut-hub-nats", fleet.Hub, fleet.NATS, final)
	add(Cut, "cut-billing-nats", fleet.Billing, fleet.NATS, published, settled)
	add(Cut, "cut-billing-billing", "", fleet.Billing, admitted)
	add(Cut, "cut-settlement-nats", fleet.Settlement, fleet.NATS, settled)
	add(Cut, "cut-billing-postgres", fleet.Billing, fleet.Postgres, beforeHold, writing, published)
	add(Stall, "stall-agent-hub", fleet.Agent, fleet.Hub, streaming)
	add(Stall, "stall-gateway-hub", "", fleet.Hub, streaming)
	add(Stall, "stall-billing-nats", fleet.Billing, fleet.NATS, published)
	add(Stall, "stall-billing-postgres", fleet.Billing, fleet.Postgres, published)
	add(Full, "full-hub", fleet.Hub, "", final)
	add(Full, "full-agent", fleet.Agent, "", streaming)
	add(Full, "full-nats", fleet.NATS, "", published)
	add(Full, "full-postgres", fleet.Postgres, "", published)
	add(Dark, "dark", "", "", answered)
	add(Forge, Strangers, fleet.NATS, "", streaming)
	add(Forge, Impostors, fleet.NATS, "", published)
	add(Forge, Forgers, fleet.NATS, "", published, settled)
	add(Forge, Repeaters, fleet.NATS, "", published, settled)
	add(Forge, Ticketers, fleet.NATS, "", admitted, published)
	return append(cells, nights()...)
}

// The moments of a day's end, in their order, and where they are.
var nightly = []struct{ when, point string }{
	{"listing", "settlement.batch.before_collected"}, // the day's list is read, and not kept
	{"listed", "settlement.batch.collected"},         // its list is kept, and nobody has examined it
	{"batching", "settlement.batch.before_commit"},   // its batches are computed, and not kept
	{"batched", "settlement.batch.committed"},        // they are kept, and nothing is posted
	{"attempted", "settlement.batch.attempted"},      // a share is about to be posted
	{"posted", "settlement.batch.posted"},            // it is posted, and settlement does not know that
}

// payable are the moments of a payout behind it, in their order, and where they are.
var payable = []struct{ when, point string }{
	{"reserved", "settlement.payout.reserved"},   // the books have set it aside, and settlement does not know that
	{"prepared", "settlement.payout.prepared"},   // what is sent is computed, and has no nonce
	{"enqueued", "settlement.call.enqueued"},     // it has a nonce, and no signature
	{"signed", "settlement.call.signed"},         // it is signed, and the bytes are not kept
	{"stored", "settlement.call.stored"},         // the bytes are kept, and not sent
	{"sent", "settlement.call.sent"},             // they are sent, and nobody has looked for them
	{"final", "settlement.call.final"},           // the chain has it for good, and settlement has not written it down
	{"mined", "settlement.call.ended"},           // that is written down, and the books do not know it
	{"confirmed", "settlement.payout.confirmed"}, // they do, and settlement does not know that
}

// nights are the cells of a day's end, and of the payouts that follow it.
func nights() []Cell {
	points := map[string]string{
		"begun":    "settlement.slash.begun",    // a call for a penalty is to be sent, and has no nonce
		"taken":    "settlement.slash.taken",    // the books have what a penalty took, and settlement does not know that
		"released": "settlement.custody.posted", // the books know what the contract has no longer, and settlement does not
	}
	var cells []Cell
	for _, moment := range nightly {
		points[moment.when] = moment.point
		cells = append(cells, Cell{What: "settlement-batch", When: moment.when, Kind: Kill, Program: fleet.Settlement})
	}
	for _, moment := range payable {
		points[moment.when] = moment.point
		cells = append(cells, Cell{What: "settlement-payout", When: moment.when, Kind: Kill, Program: fleet.Settlement,
			Chain: true})
	}
	cells = append(cells,
		Cell{What: "settlement-batch-billing", When: "listing", Kind: Kill, Program: fleet.Billing},
		Cell{What: "settlement-batch-billing", When: "attempted", Kind: Kill, Program: fleet.Billing},
		Cell{What: "settlement-batch-postgres", When: "attempted", Kind: Kill, Program: fleet.Postgres},
		Cell{What: "settlement-batch-nats", When: "batching", Kind: Kill, Program: fleet.NATS},
		Cell{What: "stop-settlement-batch", When: "batching", Kind: Stop, Program: fleet.Settlement},
		Cell{What: "cut-settlement-billing", When: "attempted", Kind: Cut, Program: fleet.Settlement, To: fleet.Billing},
		Cell{What: "settlement-signer", When: "enqueued", Kind: Kill, Program: fleet.Signer, Chain: true},
		Cell{What: "settlement-signer-forgets", When: "stored", Kind: Forget, Program: fleet.Signer, Chain: true},
		// It is done when all payouts of its night have ended. Its moment keeps it apart from the signer that forgets:
		// what the signer has written down is one of the witnesses of an adoption.
		Cell{What: "settlement-back", When: "stored", Kind: Back, Program: fleet.Settlement, Chain: true},
		Cell{What: "settlement-node-away", When: "sent", Kind: NodeAway, Program: fleet.Settlement, Chain: true},
		Cell{What: "settlement-node-lies", When: "sent", Kind: NodeLies, Program: fleet.Settlement, Chain: true},
		// They stand at one moment, so that no two come in one night: there is one courier.
		Cell{What: "card-lost", When: "listed", Kind: CardLost, Program: fleet.Billing, Chain: true},
		Cell{What: "card-twice", When: "listed", Kind: CardTwice, Program: fleet.Billing, Chain: true},
		Cell{What: "card-reversed", When: "listed", Kind: CardReversed, Program: fleet.Billing, Chain: true},
		Cell{What: "settlement-slash", When: "begun", Kind: Kill, Program: fleet.Settlement, Chain: true},
		Cell{What: "settlement-slash", When: "taken", Kind: Kill, Program: fleet.Settlement, Chain: true},
		Cell{What: "settlement-custody", When: "released", Kind: Kill, Program: fleet.Settlement, Chain: true},
		Cell{What: "settlement-node-mute", When: "signed", Kind: NodeMute, Program: fleet.Settlement, Chain: true},
		Cell{What: "settlement-reorg", When: "sent", Kind: Reorg, Program: fleet.Settlement, Chain: true},
		Cell{What: "settlement-reorg-final", When: "confirmed", Kind: Unfinal, Program: fleet.Settlement, Chain: true},
		Cell{What: "settlement-payout-nats", When: "reserved", Kind: Kill, Program: fleet.NATS, Chain: true},
		Cell{What: "cut-settlement-payout-nats", When: "prepared", Kind: Cut, Program: fleet.Settlement, To: fleet.NATS,
			Chain: true},
		Cell{What: "settlement-payout-postgres", When: "stored", Kind: Kill, Program: fleet.Postgres, Chain: true},
		Cell{What: "settlement-payout-billing", When: "mined", Kind: Kill, Program: fleet.Billing, Chain: true},
	)
	for i := range cells {
		cells[i].Night, cells[i].Point = true, points[cells[i].When]
	}
	return cells
}

// Showing returns the cells that bring a planted fault of package crash to light: with
// all other copies of the usage lost, with usage that is published again, with owners of slices that
// die, or with tickets that are forged.
func Showing(plant string) []Cell {
	match := map[string]string{
		crash.SkipPrimaryKey: `^(billing|hub)/settled$`, crash.PinWithoutSlice: `^billing/(admitted|writing|written)$`,
		crash.TicketIgnored: `^billing/(admitted|writing)$`, crash.TicketUnchecked: `^` + Ticketers + `/`,
	}[plant]
	if match == "" {
		match = `^dark/`
	}
	return Select(Cells(), regexp.MustCompile(match))
}
