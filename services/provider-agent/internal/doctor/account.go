package doctor

import (
	"context"
	"errors"
	"strings"

	"svc.internal/pkg/apikey"
	"svc.internal/services/provider-agent/internal/service"
)

const serviceFix = "set service_url in config.yaml (svc-agent setup writes it) or SVC_SERVICE_URL to the " +
	"marketplace's API: its host or port may differ from the hub's"

// maxRefusal bounds how much of another program's text is shown, in characters.
const maxRefusal = 200

// account checks the key, the account that it opens, and the other machines with it.
func (s Subject) account(ctx context.Context) []Finding {
	const check = "key"
	if !s.Key.IsSet() {
		if s.ByWallet {
			return one(check, Skipped, "the agent signs in with a wallet", "")
		}
		return one(check, Blocks, "no provider key is set", "set SVC_PROVIDER_KEY, or run svc-agent setup")
	}
	if prefix, ok := apikey.Parse(s.Key.Reveal()); !ok || prefix != apikey.Provider {
		return one(check, Blocks, "the provider key is mistyped",
			"copy the whole key: it begins with sk-prov- and is shown once, when it is made")
	}
	if s.Service == nil {
		return one(check, Skipped, "the service's address is not known", serviceFix)
	}
	answer, err := s.Service.Status(ctx, s.Key)
	switch {
	case errors.Is(err, service.ErrKey):
		return one(check, Blocks, err.Error(), "make another key in the dashboard, and set SVC_PROVIDER_KEY to it")
	case err != nil:
		return one(check, Blocks, err.Error(), serviceFix)
	}
	told, err := service.ParseStatus(answer)
	if err != nil {
		return one(check, Blocks, err.Error(), serviceFix)
	}
	found := well(check, "the key is valid, for "+service.Clean(told.Name, maxRefusal))
	found = append(found, s.others(told)...)
	return append(found, ofAccount(told)...)
}

// others names the machines beside this one that are connected with the account.
func (s Subject) others(told service.Status) []Finding {
	const check = "key used elsewhere"
	var names []string
	for _, n := range told.Nodes {
		if n.Online && n.NodeID != s.NodeID && len(names) < maxNamed {
			names = append(names, service.Clean(n.NodeName+" ("+n.NodeID+")", maxRefusal))
		}
	}
	if strings.Contains(told.Warning, "share node id") {
		return one(check, Blocks, "two machines share a node id, and their connections replace each other",
			"give each machine its own state folder: remove the file node-id from the copy")
	}
	if len(names) == 0 {
		return well(check, "no other machine is connected with this account")
	}
	return one(check, Warns, "connected beside this machine: "+strings.Join(names, ", "),
		"if one is not yours, somebody has the key: replace it in the dashboard")
}

// maxNamed bounds the machines that are named.
const maxNamed = 8

// ofAccount says what keeps the account from earning.
func ofAccount(told service.Status) []Finding {
	const check = "account"
	label := service.Clean(told.Label, maxRefusal)
	switch {
	case told.Status == "active" || told.Status == "offline":
		return well(check, label)
	case !told.CanConnect:
		return one(check, Blocks, service.Clean(label+": "+told.Warning, maxRefusal), next(told))
	}
	return one(check, Warns, label+": "+service.Clean(told.Message, maxRefusal), next(told))
}

// next are the next steps in one line.
func next(told service.Status) string {
	text := service.Clean(strings.Join(told.NextSteps, " "), 3*maxRefusal)
	if text == "" {
		return "svc-agent status says more"
	}
	return text
}
