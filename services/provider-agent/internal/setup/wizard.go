package setup

import (
	"svc.internal/pkg/config"
	"svc.internal/services/provider-agent/internal/engine"
	"svc.internal/services/provider-agent/internal/service"
)

// Options are what is known before anything is asked.
type Options struct {
	// ServiceURL is the marketplace's API, HubURL its hub. HubURL follows from ServiceURL
	// by custom when it is empty.
	ServiceURL, HubURL string
	// Account is signup, login, key or keep; where it is empty, the wizard asks. Key is a key
	// that the owner has.
	Account string
	Email   string
	Password,
	Key config.Secret
	// Offer chooses the models, as an answer to the question does.
	Offer string
	// Beneficiary is the address that is paid.
	Beneficiary string
	NodeName    string
	Capacity    int
	// Context has Ollama make models with a window of so many tokens; 0 makes none unless the
	// owner chooses one.
	Context int64
	// Pull is a model that Ollama downloads first.
	Pull string
	// Ports are where engines are looked for.
	Ports []int
	// Yes asks nothing.
	Yes bool
	// AllowPlaintext lets ServiceURL be http:// although it is not this machine's.
	AllowPlaintext bool
	// Home is the folder of the files. Models, when it is not empty, is where models.json is.
	Home, Models string
}

// wizard is one run.
type wizard struct {
	Options
	ask    prompt
	client *service.Client
	told   []service.CatalogModel
	chosen []option
	// keyWritten reports that this run has written the provider key.
	keyWritten bool
}

// Bounds of others' texts, as far as they are shown.
const (
	maxCell  = 60
	maxLine  = 300
	maxSteps = 10
	maxRows  = 20
)

// option is a model that may be offered.
type option struct {
	engine engine.Found
	// local is the engine's name of the model.
	local string
	// id is the catalog's id; empty when no model of the catalog has the name.
	id string
	// holds is how many tokens the engine holds; 0 when it does not say.
	holds int64
	// window is the window of the model that is made for this option; 0 where none is made.
	window int64
}
