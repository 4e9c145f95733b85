# The only door to the project. `make help` lists what there is.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

BIN := $(CURDIR)/.bin
MODULES := proto pkg $(sort $(patsubst %/go.mod,%,$(wildcard services/*/go.mod)))
COMMANDS := $(patsubst %/main.go,./%,$(wildcard services/*/cmd/*/main.go))
# Modules that nothing else builds on; they stay out of the workspace.
APART := services/edge-gateway/corpus deploy/bench deploy/check deploy/dev/postgres deploy/engine deploy/sbom

GENERATE = tool=$$(deploy/dev/tool.sh buf) && PATH="$$(deploy/dev/tool.sh generators):$$PATH" && $$tool/buf generate

export GOFLAGS ?= -buildvcs=false

.PHONY: help
help: ## Show what can be made
	@[ -t 1 ] && bold=$$(printf '\033[1m') plain=$$(printf '\033[0m') || bold= plain=; \
	  awk -v b="$$bold" -v p="$$plain" 'BEGIN {FS = ":.*## "} /^[a-z0-9-]+:.*## / {printf "  %s%-10s%s %s\n", b, $$1, p, $$2}' $(MAKEFILE_LIST)

.PHONY: run
run: postgres ## Start the whole marketplace on this machine, with a demo
	@echo "  Building (the first time takes a few minutes) ..."
	@mkdir -p $(BIN)
	@go build -o $(BIN)/standalone ./services/standalone/cmd/standalone
	@. deploy/dev/postgres.env.sh && exec $(BIN)/standalone

.PHONY: up
up: postgres programs ## Start the marketplace as a fleet of processes, in the background
	@. deploy/dev/postgres.env.sh && exec $(BIN)/fleet/fleet up

.PHONY: down
down: ## Stop the fleet, in order
	@[ ! -x $(BIN)/fleet/fleet ] || exec $(BIN)/fleet/fleet down

.PHONY: status
status: ## Show the fleet's processes
	@[ -x $(BIN)/fleet/fleet ] && exec $(BIN)/fleet/fleet status || echo "  There is no fleet: make up starts one."

.PHONY: sdk
sdk: ## Run the official SDKs against the fleet of make up (or SVC_E2E_ENV=.run/demo.env: make run)
	@SVC_E2E_ENV=$${SVC_E2E_ENV:-$(CURDIR)/.run/fleet/fleet.env} go test -count=1 -timeout 10m -run SDK ./services/proving/e2e

.PHONY: programs
programs: # Builds what a fleet consists of
	@echo "  Building (the first time takes a few minutes) ..."
	@mkdir -p $(BIN)/fleet
	@go build -o $(BIN)/fleet/ $(COMMANDS) github.com/nats-io/nats-server/v2

.PHONY: certs
certs: ## Make development certificates for every service in .run/certs
	@go run ./services/proving/cmd/devcerts -dir .run/certs

.PHONY: test
test: postgres ## Run all tests but the long ones
	@. deploy/dev/postgres.env.sh && go test -short -timeout 15m work
	@for m in $(APART); do (cd $$m && GOWORK=off go test ./...); done

.PHONY: e2e
e2e: postgres ## Run the long tests: the fleet killed, restarted and under load
	@. deploy/dev/postgres.env.sh && go test -timeout 40m -count=1 ./services/proving/e2e/kill ./services/proving/e2e/... # the longest first

.PHONY: chaos
chaos: postgres ## Hurt a fleet under load and audit its money (CHAOS_FAULTS=n, CHAOS_SEED=n, CHAOS_CELLS=regexp, CHAOS_PLANT=fault)
	@mkdir -p $(BIN)
	@go build -o $(BIN)/chaos ./services/proving/cmd/chaos
	@. deploy/dev/postgres.env.sh && exec $(BIN)/chaos -faults "$${CHAOS_FAULTS:-0}" -seed "$${CHAOS_SEED:-}" \
	  -cells "$${CHAOS_CELLS:-}" -plant "$${CHAOS_PLANT:-}" $(CHAOS_FLAGS)

.PHONY: sim
sim: ## Play seeded histories of the request's path with faults for a minute (SIM_FLAGS="-seed n -histories 1 -trace")
	@go -C services/proving run ./cmd/sim $(or $(SIM_FLAGS),-for 1m)

.PHONY: corpus
corpus: ## Hold the estimates of 100,000 prompts of many scripts against engines' tokenizers (CORPUS_PROMPTS=n)
	@cd services/edge-gateway/corpus && CORPUS_PROMPTS=$${CORPUS_PROMPTS:-100000} GOWORK=off go test -count=1 -v -timeout 60m .

.PHONY: fuzz
fuzz: postgres ## Run every fuzz target, one after another (FUZZTIME=1m each, FUZZ=regexp of targets)
	@. deploy/dev/postgres.env.sh && FUZZTIME=$${FUZZTIME:-1m} deploy/dev/fuzz.sh "$${FUZZ:-.}"

.PHONY: engine
engine: postgres ## Build Ollama and run the tests on it (minutes of building, once)
	@deploy/engine/build.sh
	@. deploy/dev/postgres.env.sh && OLLAMA_BIN=$${OLLAMA_BIN:-$$(deploy/engine/build.sh --path)} \
	  go test -tags engine -timeout 15m -count=1 ./services/proving/e2e/engine/...

.PHONY: race
race: postgres ## Run all tests but the long ones with the race detector (needs a C compiler)
	@. deploy/dev/postgres.env.sh && go test -race -short -timeout 20m work

.PHONY: bench
bench: postgres ## Measure the product beside a bare proxy and nginx (if present)
	@. deploy/dev/postgres.env.sh && deploy/dev/bench.sh

.PHONY: bench-against
bench-against: postgres ## Compare CPU and allocations with another commit, in nine rounds by turns (BASE=commit)
	@. deploy/dev/postgres.env.sh && deploy/dev/bench-against.sh "$${BASE:?BASE=commit is needed}"

.PHONY: bench-ledger
bench-ledger: postgres ## Measure the ledger alone, flushing to disk (BENCH_ALL=1: up to a million accounts and ten million rows)
	@. deploy/dev/postgres.env.sh && cd services/billing-ledger && go test -run '^$$' -bench '^Benchmark(Ledger|Verify|Storage)$$' -benchtime 1x -timeout 90m ./internal/store

.PHONY: bench-hub
bench-hub: postgres ## Measure one hub with 10,000 agents: memory, a mass cut, streams that share a socket, half-open connections
	@. deploy/dev/postgres.env.sh && deploy/dev/bench-hub.sh

.PHONY: build
build: ## Build every program into .bin
	@mkdir -p $(BIN)
	@go build -o $(BIN)/ $(COMMANDS)

.PHONY: sbom
sbom: build ## Write what each program is made of, as CycloneDX, to .bin/sbom
	@cd deploy/sbom && GOWORK=off go run . -out $(BIN)/sbom $(addprefix $(BIN)/,$(notdir $(COMMANDS)))

.PHONY: lint
lint: ## Run the linters
	@tool=$$(deploy/dev/tool.sh buf) && $$tool/buf lint
	@tool=$$(deploy/dev/tool.sh golangci-lint) && $$tool/golangci-lint run $(MODULES:%=./%/...)

.PHONY: generate
generate: ## Generate code from the contracts
	@$(GENERATE)

.PHONY: tidy
tidy: ## Bring every go.mod and go.sum in order
	@for m in $(MODULES) $(APART); do (cd $$m && GOWORK=off go mod tidy); done
	@go work sync

.PHONY: verify
verify: generate lint ## Everything that must hold before a change lands
	@git diff --exit-code -- proto || (echo "generated code differs: commit what 'make generate' makes"; exit 1)
	@for m in $(MODULES) $(APART); do echo "  check $$m"; (cd $$m && GOWORK=off go mod tidy -diff && GOWORK=off go build -o /dev/null ./...); done
	@for m in $(APART); do (cd $$m && GOWORK=off go vet ./...); done # the linters vet the others
	@go work sync && git diff --exit-code -- go.work '*go.mod'
	@$(MAKE) --no-print-directory race

.PHONY: postgres
postgres: # Makes sure that PostgreSQL's server programs are there
	@deploy/dev/postgres.sh
