// Package plan decides what a chaos run does to a fleet: which faults, in which order, at
// which moment of a request, and to which process. One seed is one plan.
//
// The cells are those of the failure matrix: what is hurt, and how far a request has come
// then. Besides deaths there are processes that stand still for longer than leases and
// heartbeats, connections that are reset or pass nothing on, disks that are full, and the
// loss of everything but the disks of the hubs and of PostgreSQL. Cells of settlement are at
// night, when a day ends: they come one at a time, behind all others; see Days.
package plan

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"time"

	"svc.internal/services/proving/internal/fleet"
)

// Kind is the way in which something is hurt.
type Kind string

// The kinds.
const (
	// Kill ends processes by SIGKILL and starts them again.
	Kill Kind = "kill"
	// Lose is Kill, and everything that they keep on disk is lost.
	Lose Kind = "lose"
	// Stop makes processes stand still by SIGSTOP, and continue by SIGCONT.
	Stop Kind = "stop"
	// Cut resets connections and refuses new ones for a while.
	Cut Kind = "cut"
	// Stall keeps connections open for a while without passing anything on.
	Stall Kind = "stall"
	// Full keeps processes from writing to files for a while.
	Full Kind = "full"
	// Dark is the death of all processes but PostgreSQL, with NATS's store and the
	// agents' disks. Only the hubs' journals and the database remain.
	Dark Kind = "dark"
	// NodeAway and its like are of one of the two nodes of a chain that settlement asks; see package ethnode.
	NodeAway Kind = "node-away"
	NodeLies Kind = "node-lies"
	// NodeMute is a node that takes questions and never answers.
	NodeMute Kind = "node-mute"
	// Reorg takes blocks off a chain that are not final, with a payout in them. Unfinal takes final ones off too; an
	// operator lifts the halts that follow.
	Reorg   Kind = "reorg"
	Unfinal Kind = "unfinal"
	// CardLost, CardTwice and CardReversed are of what a card processor tells; see package courier. A payment by card is
	// made and charged back meanwhile.
	CardLost     Kind = "card-lost"
	CardTwice    Kind = "card-twice"
	CardReversed Kind = "card-reversed"
	// Back sets settlement's database back to a copy from before a night's payouts, which an operator adopts then.
	Back Kind = "back"
	// Forget takes away what the signer has written down of what it signed.
	Forget Kind = "forget"
	// Forge hurts nobody: an intruder is on NATS; see package intruder.
	Forge Kind = "forge"
)

// The attempts of intruders. Each is the What of its cells.
const (
	// Strangers connect without a certificate that NATS knows.
	Strangers = "forge-stranger"
	// Impostors publish another service's messages with the certificate of a service.
	Impostors = "forge-identity"
	// Forgers publish altered usage with the certificates of hubs.
	Forgers = "forge-usage"
	// Repeaters publish genuine usage again.
	Repeaters = "forge-repeat"
	// Ticketers publish usage of requests that nobody admitted, with forged tickets and with those of
	// other requests.
	Ticketers = "forge-ticket"
)

// Cell is one cell of the matrix.
type Cell struct {
	// What is hurt and When make up the name, what/when.
	What, When string
	Kind       Kind
	// Program is the program whose processes are hurt; of Cut and Stall, the program that
	// dials To; of Forge, the program that must not be hurt meanwhile.
	Program, To string
	// Point is the crash point at which When is.
	Point string
	// Night is set for cells whose moment comes when a day ends: the load stops then, the fleet
	// becomes idle, and the database's time goes on to the next day.
	Night bool
	// Chain is set for cells that need a chain.
	Chain bool
}

// Name is unique.
func (c Cell) Name() string { return c.What + "/" + c.When }

// Key is equal for cells that hurt the same program, and so must not be under way at the
// same time. Dark hurts all.
func (c Cell) Key() string {
	if c.Kind == Cut || c.Kind == Stall {
		return c.Program + ">" + c.To
	}
	return c.Program
}

// Class says which faults may be under way together. The marketplace promises to lose
// nothing when one of its evidence sources is lost or late: the hub's journal, the
// gateway's report, the agent's work receipt, or NATS's copy on the way. It cannot
// promise that for all of them at once. So faults that exclude each other are done at
// different times.
type Class int

// The classes.
const (
	// Apart is a fault of a program that is no evidence source: of routing, of prices, of
	// verification, or of intruders, who hurt nobody.
	Apart Class = iota
	// Short is an outage of seconds, shorter than a lease.
	Short
	// Long is an outage beyond leases and heartbeats.
	Long
	// Mute is a gateway that dies, or stands still for longer than its holds are kept,
	// and so reports nothing. It must not meet Long.
	Mute
	// Loss is the loss of something on a disk. It meets Apart alone, and everything that
	// was served before must be settled. After the loss of a hub's disk, gateways must
	// report what the hub served before another fault begins.
	Loss
)

// Class is the class of a cell's faults.
func (c Cell) Class() Class {
	switch {
	case c.Kind == Lose || c.Kind == Dark:
		return Loss
	case c.Kind == Forge || c.Program == fleet.Router || c.Program == fleet.Catalog || c.Program == fleet.Verifier:
		return Apart
	case c.Program == fleet.Gateway && (c.Kind == Kill || c.Kind == Stop):
		return Mute
	case c.Kind == Stop || c.Kind == Stall || c.Kind == Full || c.Kind == Unfinal:
		return Long
	default:
		return Short
	}
}

// Meets reports whether faults of two classes may be under way together.
func (c Class) Meets(other Class) bool {
	if c == Apart || other == Apart {
		return true
	}
	return c != Loss && other != Loss && (c != Mute || other != Long) && (c != Long || other != Mute)
}

// Days divides faults into those of the day, and those of nights.
func Days(faults []Fault) (day, night []Fault) {
	for _, f := range faults {
		if f.Cell.Night {
			night = append(night, f)
		} else {
			day = append(day, f)
		}
	}
	return day, night
}

// Fault is one fault of a run.
type Fault struct {
	// Number counts from 1.
	Number int
	Cell   Cell
	// All reports that every replica is hurt, not one.
	All bool
	// Pick chooses one of several, modulo their number.
	Pick int
	// Away is how long the fault lasts.
	Away time.Duration
	// Nth is which request that reaches the moment is meant, from 1.
	Nth int
}

// String names it in a log.
func (f Fault) String() string {
	which := "one"
	if f.All {
		which = "all"
	}
	return fmt.Sprintf("#%d %s (%s, pick %d, %v)", f.Number, f.Cell.Name(), which, f.Pick, f.Away)
}

// Rounds is how often each cell is run when no number of faults is given.
const Rounds = 2

// Make plans n faults on the cells, or Rounds of each when n is 0: every cell once in a
// random order, then every cell once more, and so on. In every other round of a cell all
// replicas are hurt.
func Make(seed uint64, n int, cells []Cell) []Fault {
	if n == 0 {
		n = Rounds * len(cells)
	}
	random := rand.New(rand.NewPCG(seed, 0x6368616f73)) //nolint:gosec // it must repeat, not surprise
	faults := make([]Fault, 0, n)
	for round := 0; len(faults) < n && len(cells) > 0; round++ {
		for _, i := range random.Perm(len(cells)) {
			f := Fault{
				Number: len(faults) + 1, Cell: cells[i], Pick: random.IntN(1 << 16), Nth: 1 + random.IntN(3),
				All: (int(hash(cells[i].Name()))+round)%2 == 0,
			}
			if f.Cell.Night {
				f.Nth = 1 // a night comes to its moments once
			}
			f.Away = away(cells[i].Kind, random)
			if len(faults) < n {
				faults = append(faults, f)
			}
		}
	}
	return faults
}

// StillFor is the least time for which processes stand still and connections pass nothing
// on: longer than every lease and heartbeat of a chaos fleet.
const StillFor = 7 * time.Second

// away is the length of a fault. Stop and Stall last longer than every lease and
// heartbeat of a chaos fleet, Cut and Full half a second to three seconds, and the other
// kinds less than half a second.
func away(kind Kind, random *rand.Rand) time.Duration {
	switch kind {
	case Stop, Stall:
		return StillFor + time.Duration(random.IntN(2000))*time.Millisecond
	case Cut, Full, NodeAway, NodeLies, NodeMute:
		return 500*time.Millisecond + time.Duration(random.IntN(2500))*time.Millisecond
	default:
		return time.Duration(random.IntN(500)) * time.Millisecond
	}
}

func hash(text string) uint32 {
	sum := uint32(2166136261)
	for i := range len(text) {
		sum = (sum ^ uint32(text[i])) * 16777619
	}
	return sum >> 8
}

// Select returns the cells whose names match; nil matches all.
func Select(cells []Cell, match *regexp.Regexp) []Cell {
	if match == nil {
		return cells
	}
	return slices.DeleteFunc(slices.Clone(cells), func(c Cell) bool { return !match.MatchString(c.Name()) })
}
