// Package doctor looks for what keeps this machine from earning, and names for each fault what
// mends it. It changes nothing. The checks run at the same time and end within 15 s.
package doctor

import (
	"context"
	"slices"
	"time"

	"svc.internal/pkg/config"
	"svc.internal/services/provider-agent/internal/hardware"
	"svc.internal/services/provider-agent/internal/service"
)

// Level is how much a finding matters.
type Level string

// The levels.
const (
	OK Level = "ok"
	// Warns is a finding that may cost earnings. With a finding of Fails one model earns nothing, and
	// with a finding of Blocks nothing is earned at all.
	Warns  Level = "warning"
	Fails  Level = "fault"
	Blocks Level = "blocks"
	// Skipped is a check that could not be made, because another finding comes first.
	Skipped Level = "skipped"
)

// Finding is the result of one check.
type Finding struct {
	Check string `json:"check"`
	Level Level  `json:"level"`
	// Text says what was found, and Fix what to do. Fix is empty where nothing is to be done.
	Text string `json:"text"`
	Fix  string `json:"fix,omitempty"`
	// Model is the model that the finding is about; empty for a finding about the whole machine.
	Model string `json:"model,omitempty"`
}

// Model is one model that the agent is to offer, and what its engine says of it.
type Model struct {
	ModelID, EngineURL, LocalModel string
	// Declared is the window in models.json, in tokens; 0 where models.json has none.
	Declared int64
	// Fault says why the engine does not serve the model; empty where it does.
	Fault string
	// Window is the window that the engine has, in tokens; 0 where it is not known.
	Window int64
}

// Subject is what is looked at. A nil function is a check that is not made.
type Subject struct {
	// SettingsFault says what is wrong with the settings or the list of models.
	SettingsFault error
	// Hub is the address of the hub's WebSocket, and Service asks the marketplace's API. Each is
	// empty where no address is known.
	Hub     string
	Service *service.Client
	Key     config.Secret
	// ByWallet reports that the agent signs in with a wallet, so that Key may be missing.
	ByWallet bool
	StateDir string
	NodeID   string
	Models   []Model
	// Machine finds the GPUs; it returns nil where there are none.
	Machine func(context.Context) (*hardware.Report, error)
	// Free is how many bytes are free in a folder.
	Free func(dir string) (int64, error)
	// Now is this machine's time.
	Now func() time.Time
}

// Blocked reports whether a finding leaves nothing to earn.
func Blocked(all []Finding) bool {
	return slices.ContainsFunc(all, func(f Finding) bool { return f.Level == Blocks })
}

// judged turns Fails into Blocks where every model has a fault.
func judged(found []Finding, models []Model) []Finding {
	faulty := map[string]bool{}
	for _, f := range found {
		if f.Level == Fails {
			faulty[f.Model] = true
		}
	}
	if slices.ContainsFunc(models, func(m Model) bool { return !faulty[m.ModelID] }) {
		return found
	}
	for i := range found {
		if found[i].Level == Fails {
			found[i].Level = Blocks
		}
	}
	return found
}

func one(check string, level Level, text, fix string) []Finding {
	return []Finding{{Check: check, Level: level, Text: text, Fix: fix}}
}

// of makes a finding about one model.
func of(m Model, check string, level Level, text, fix string) Finding {
	return Finding{Check: check, Level: level, Text: text, Fix: fix, Model: m.ModelID}
}

func well(check, text string) []Finding { return one(check, OK, text, "") }
