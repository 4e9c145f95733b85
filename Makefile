# The only door to the project. `make help` lists what there is.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

BIN := $(CURDIR)/.bin
MODULES := proto pkg $(sort $(patsubst %/go.mod,%,$(wildcard services/*/go.mod)))
COMMANDS := $(patsubst %/main.go,./%,$(wildcard services/*/cmd/*/main.go))
# Modules that nothing else builds on; they stay out of the workspace.
APART := charts/check services/edge-gateway/corpus deploy/bench deploy/check deploy/dashboards deploy/dev/postgres \
  deploy/engine deploy/images deploy/sbom
# The modules of APART that are linted: the others are measuring tools and data.
LINTED_APART := charts/check deploy/dashboards deploy/engine deploy/images deploy/sbom

# Test binaries run at a time: a package waits for about half of its time.
AT_ONCE := $(shell echo $$((2 * $$(getconf _NPROCESSORS_ONLN))))
# Nobody debugs these programs, and what a debugger reads takes a fifth of linking.
TEST_FLAGS := -p $(AT_ONCE) -ldflags=-w
TESTED := $(CURDIR)/.run/tests
GENERATE = tool=$$(deploy/dev/tool.sh buf) && PATH="$$(deploy/dev/tool.sh generators):$$PATH" && $$tool/buf generate
CONTRACTS := services/settlement/contracts
COMPILE = tools=$$(deploy/dev/tool.sh solidity) && node $(CONTRACTS)/compile.mjs "$$tools"
E2E := ./services/proving/e2e
FLEET := ./services/proving/internal/fleet ./services/proving/cmd/fleet
# What a slow machine tests without the race detector, because a database or a model does most of the work.
UNRACED := $(patsubst %,./services/%/...,billing-ledger settlement standalone verifier) \
  ./services/provider-hub/internal/rpc ./services/provider-hub/internal/store
SHOW := GOWORK=off go -C deploy/check run ./cmd/slow -keep $(TESTED)
# Ends a command whose events SHOW reads, because SHOW decides what fails.
ENDED = || echo '{"Action":"fail"}'
# What go test would vet, lint vets.
CHECK := go test -json -count=1 -vet=off $(TEST_FLAGS)
SUITE := $(CHECK) -timeout 40m

# Without the paths of this machine, another clone on it finds what this one has compiled.
export GOFLAGS ?= -buildvcs=false -trimpath

.PHONY: help
help: ## Show what can be made
	@[ -t 1 ] && bold=$$(printf '\033[1m') plain=$$(printf '\033[0m') || bold= plain=; \
	  awk -v b="$$bold" -v p="$$plain" 'BEGIN {FS = ":.*## "} /^[a-z0-9-]+:.*## / {printf "  %s%-10s%s %s\n", b, $$1, p, $$2}' $(MAKEFILE_LIST)

.PHONY: run
run: postgres ## Start the whole marketplace on this machine, with a demo
	@echo "  Building (the first time takes a few minutes) ..."
	@mkdir -p $(BIN)
	@go build -o $(BIN)/standalone ./services/standalone/cmd/standalone
	@. deploy/dev/postgres.env.sh && SVC_ANVIL=$${SVC_ANVIL-$$(! command -v npm >/dev/null || deploy/dev/tool.sh anvil | sed 's|$$|/anvil|')} && \
	  export SVC_ANVIL && exec $(BIN)/standalone

.PHONY: next-day
next-day: ## End the day of the demo that make run runs, so that its batch closes
	@[ -x $(BIN)/standalone ] && exec $(BIN)/standalone next-day || { echo "  No demo was built: make run starts one."; exit 1; }

.PHONY: operator-code
operator-code: ## Print the demo operator's current sign-in code
	@[ -x $(BIN)/standalone ] && exec $(BIN)/standalone operator-code || { echo "  No demo was built: make run starts one."; exit 1; }

.PHONY: up
up: postgres programs ## Start the marketplace as a fleet of processes, in the background (GROUPED=1: fewer)
	@. deploy/dev/postgres.env.sh && exec $(BIN)/fleet/fleet up $(if $(GROUPED),-grouped)

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
	@go build -ldflags=-w -o $(BIN)/fleet/ $(COMMANDS) github.com/nats-io/nats-server/v2

.PHONY: certs
certs: ## Make development certificates for every service in .run/certs
	@go run ./services/proving/cmd/devcerts -dir .run/certs

.PHONY: test
test: postgres ## Run all tests but the long ones and the end-to-end tests on a fleet
	@mkdir -p $(TESTED)
	@. deploy/dev/postgres.env.sh && { failed=0; \
	  $(MAKE) --no-print-directory apart >$(TESTED)/apart.log 2>&1 & apart=$$!; \
	  SVC_E2E_FORM=$${SVC_E2E_FORM:-standalone} go test -short $(TEST_FLAGS) -timeout 15m work || failed=1; \
	  wait $$apart || failed=1; cat $(TESTED)/apart.log; exit $$failed; }

.PHONY: apart
apart: # Vets and tests the modules that stand apart, which the linters and the workspace leave out; images-check has deploy/images
	@printf '%s\n' $(filter-out deploy/images,$(APART)) | xargs -P2 -I{} bash -c 'cd {} && GOWORK=off go vet ./... && GOWORK=off go test -count=1 ./...'

.PHONY: unit
unit: postgres ## Run all tests but the long ones and the suites with the race detector (needs a C compiler)
	@mkdir -p $(TESTED)
	@. deploy/dev/postgres.env.sh && { raced=$$(go list work | grep -v /services/proving/e2e); \
	  if [ -n "$${SLOW_MACHINE:-}" ]; then \
	    unraced=$$(go list $(UNRACED)); raced=$$(grep -vxF "$$unraced" <<<"$$raced"); \
	    $(CHECK) -short -timeout 40m $$unraced $(ENDED); fi; \
	  $(CHECK) -race -short -timeout 40m $$raced $(ENDED); } | $(SHOW)/unit.json -again 2 -- -race -short

.PHONY: e2e
e2e: suites payout-stories attack ## Run the end-to-end tests whole: the fleet killed, restarted, under load and attacked

.PHONY: suites
suites: postgres # One package after the other: a fleet has 24 processes. The one process and what starts fleets have the race detector
	@mkdir -p $(TESTED)
	@. deploy/dev/postgres.env.sh && { $(SUITE) -p 1 $${SLOW_MACHINE:--race} $(E2E) $(FLEET) $(ENDED); \
	  $(SUITE) -p 1 $${SLOW_MACHINE:+-skip=AtEveryPoint/round1} $$(go list $(E2E)/... | grep -vE '/(e2e|attack|settlement)$$') $(ENDED); } \
	  | $(SHOW)/e2e.json -again 3 -- $${SLOW_MACHINE:--race}

.PHONY: attack
attack: postgres ## Run the attacks, which measure times: nothing else should run
	@mkdir -p $(TESTED)
	@. deploy/dev/postgres.env.sh && { $(SUITE) $(E2E)/attack $(ENDED); } | $(SHOW)/attack.json -again 2

.PHONY: chaos
chaos: postgres ## Hurt a fleet under load and audit its money (CHAOS_FAULTS=n or each, CHAOS_SEED=n, CHAOS_CELLS=regexp, CHAOS_PLANT=fault)
	@mkdir -p $(BIN)
	@go build -ldflags=-w -o $(BIN)/chaos ./services/proving/cmd/chaos
	@. deploy/dev/postgres.env.sh && faults=$${CHAOS_FAULTS:-0} && \
	  if [ "$$faults" = each ]; then faults=$$($(BIN)/chaos -list | wc -l); fi && \
	  exec $(BIN)/chaos -faults "$$faults" -seed "$${CHAOS_SEED:-}" \
	  -cells "$${CHAOS_CELLS:-}" -plant "$${CHAOS_PLANT:-}" $(CHAOS_FLAGS)

.PHONY: sim
sim: ## Play seeded histories of the request's path with faults for a minute (SIM_FLAGS="-seed n -histories 1 -trace")
	@go -C services/proving run ./cmd/sim $(or $(SIM_FLAGS),-for 1m)

.PHONY: verification
verification: postgres ## Measure what verification sees of cheats, and hold it against the design (LAB=short: fewer years, as CI does)
	@mkdir -p $(BIN)
	@go build -ldflags=-w -o $(BIN)/lab ./services/verifier/cmd/lab
	@. deploy/dev/postgres.env.sh && { failed=0; \
	  go test -count=1 -vet=off -ldflags=-w -timeout 20m $$(grep -rl 'testing.Short()' services/verifier/internal | \
	    xargs -n1 dirname | sort -u | sed 's|^|./|') || failed=1; \
	  $(MAKE) --no-print-directory cheats CHEATS=$(if $(filter short,$(LAB)),$(SHORT_CHEATS),all) || failed=1; \
	  $(BIN)/lab -auc services/verifier/lab/auc.json $(if $(filter short,$(LAB)),,-full -out services/verifier/lab) $(LAB_FLAGS) || failed=1; exit $$failed; }

# One cheat in each dialect that is followed to its penalty, one that is not, and an honest provider.
SHORT_CHEATS := four-bit,four-bit-v1,cached,nobody

.PHONY: cheats
cheats: postgres ## Find cheating providers through the real edge, hub, router and verifier (CHEATS=names, all by default)
	@mkdir -p $(TESTED)
	@. deploy/dev/postgres.env.sh && SVC_E2E_CHEATS=$(or $(CHEATS),all) go test -json -count=1 -vet=off -ldflags=-w \
	  -timeout 30m ./services/proving/e2e/verification | $(SHOW)/cheats.json

.PHONY: replay-archs
replay-archs: ## Replay committed evidence, and run the tests of what decides verdicts, on 386 and arm64 (by qemu-user)
	@deploy/dev/replay-archs.sh

.PHONY: camouflage
camouflage: ## Measure whether hidden probes can be told from consumers' requests (also by python3-sklearn, where it is installed)
	@mkdir -p $(BIN) .run/camouflage
	@go build -ldflags=-w -o $(BIN)/camouflage ./services/verifier/cmd/camouflage
	@$(BIN)/camouflage -csv .run/camouflage -json services/verifier/lab/auc.json
	@if /usr/bin/python3 -c 'import sklearn' 2>/dev/null; then \
	  /usr/bin/python3 services/verifier/cmd/camouflage/judge.py .run/camouflage services/verifier/lab/auc.json; fi

.PHONY: organic
organic: # Records what SDKs send for the orders of consumers (needs node), and makes samples of it
	@mkdir -p $(BIN) .run/camouflage
	@go build -ldflags=-w -o $(BIN)/camouflage ./services/verifier/cmd/camouflage
	@$(BIN)/camouflage -orders .run/camouflage/orders.jsonl
	@ORGANIC_ORDERS=$(CURDIR)/.run/camouflage/orders.jsonl ORGANIC_REQUESTS=$(CURDIR)/.run/camouflage/requests.jsonl \
	  go test -count=1 -vet=off -run TheSDKsWriteTheRequests ./services/proving/e2e
	@$(BIN)/camouflage -recorded .run/camouflage/requests.jsonl -organic services/verifier/internal/camouflage/organic.csv.gz

.PHONY: corpus
corpus: ## Hold the estimates of 100,000 prompts of many scripts against engines' tokenizers (CORPUS_PROMPTS=n)
	@cd services/edge-gateway/corpus && CORPUS_PROMPTS=$${CORPUS_PROMPTS:-100000} GOWORK=off go test -count=1 -v -timeout 60m .

.PHONY: fuzz
fuzz: postgres ## Run every fuzz target, one after another (FUZZTIME=1m each, FUZZ=regexp of targets)
	@. deploy/dev/postgres.env.sh && FUZZTIME=$${FUZZTIME:-1m} deploy/dev/fuzz.sh "$${FUZZ:-.}"

.PHONY: engine
engine: postgres ## Build Ollama and run the tests on it (minutes of building, once)
	@deploy/engine/build.sh
	@. deploy/dev/postgres.env.sh && export OLLAMA_BIN=$${OLLAMA_BIN:-$$(deploy/engine/build.sh --path)} && \
	  go test -tags engine -ldflags=-w -timeout 15m -count=1 ./services/proving/e2e/engine/... && \
	  go test -tags engine -ldflags=-w -timeout 15m -count=1 -v ./services/verifier/internal/engine | { grep -v '^===' || :; }

.PHONY: restore-rehearsal
restore-rehearsal: postgres ## Lose the database's disk and restore it, also with payouts on a chain, then all NATS data with a hub's journal (minutes)
	@. deploy/dev/postgres.env.sh && \
	  go test -tags rehearsal -ldflags=-w -timeout 30m -count=1 -v -skip 'Zone|Volume|OfThree' ./services/proving/e2e/worst | \
	  { grep -v '^===' || :; }

.PHONY: zone-rehearsal
zone-rehearsal: postgres ## Lose a zone, a hub's volume, and NATS servers of a cluster of three, under load (minutes)
	@. deploy/dev/postgres.env.sh && \
	  go test -tags rehearsal -ldflags=-w -timeout 30m -count=1 -v -run 'Zone|Volume|OfThree' ./services/proving/e2e/worst | \
	  { grep -v '^===' || :; }

.PHONY: bench
bench: postgres ## Measure the product beside a bare proxy and nginx (if present)
	@. deploy/dev/postgres.env.sh && deploy/dev/bench.sh

.PHONY: bench-against
bench-against: postgres ## Compare CPU and allocations with another commit, in nine rounds by turns (BASE=commit)
	@. deploy/dev/postgres.env.sh && deploy/dev/bench-against.sh "$${BASE:?BASE=commit is needed}"

.PHONY: bench-inner
bench-inner: postgres ## Compare Go benchmarks of the request's inner parts with another commit, by turns, with benchstat (BASE=commit)
	@. deploy/dev/postgres.env.sh && deploy/dev/bench-inner.sh "$${BASE:?BASE=commit is needed}"

.PHONY: bench-profiles
bench-profiles: postgres ## Save profiles of CPU, locks, waits and allocations of the product under chat-16 and live20-64, and print their tops
	@. deploy/dev/postgres.env.sh && deploy/dev/bench-profiles.sh

.PHONY: soak
soak: postgres ## Hold a steady load for an hour and print how fast memory, files and tables grow (SOAK_FOR=1h)
	@. deploy/dev/postgres.env.sh && deploy/dev/soak.sh

.PHONY: bench-ledger
bench-ledger: postgres ## Measure the ledger alone, flushing to disk (BENCH_ALL=1: up to a million accounts and ten million rows)
	@. deploy/dev/postgres.env.sh && cd services/billing-ledger && go test -run '^$$' -bench '^Benchmark(Ledger|Verify|Storage)$$' -benchtime 1x -timeout 90m ./internal/store

.PHONY: bench-admit
bench-admit: postgres ## Compare the processor time of admission with that of another commit, in fifteen rounds by turns (BASE=commit)
	@mkdir -p .run && dir="$${BASE:?BASE=commit is needed}:services/billing-ledger/internal/store/functions" && \
	  (git show "$$dir/admit_requests.sql" 2>/dev/null || git show "$$dir/admit.sql") >.run/admit-base.sql
	@. deploy/dev/postgres.env.sh && cd services/billing-ledger && ADMIT_BASE=$(CURDIR)/.run/admit-base.sql go test -run '^$$' -bench '^BenchmarkAdmitAgainst$$' -benchtime 1x -timeout 60m -v ./internal/store

.PHONY: bench-views
bench-views: postgres ## Measure what consumers see: pages, sums and a CSV of 10^7 lines (BENCH_LINES=n), and lines folded a second
	@. deploy/dev/postgres.env.sh && cd services/billing-ledger && go test -run '^$$' -bench '^Benchmark(Passbook|Fold)$$' -benchtime 1x -timeout 60m -v ./internal/store

.PHONY: bench-sign-in
bench-sign-in: postgres ## Measure what signing in costs, and what a flood of guesses takes from it
	@. deploy/dev/postgres.env.sh && cd services/billing-ledger && go test -run '^$$' -bench '^BenchmarkSignInFlood$$' -benchtime 1x -timeout 20m ./internal/store

.PHONY: payout-sim
payout-sim: ## Play seeded histories of payouts with crashes and reorgs (HISTORIES=n, 10,000 by default)
	@go test -count=1 -vet=off -timeout 10h -run TestEachPayout -v ./services/settlement/internal/payoutsim $(if $(HISTORIES),-histories $(HISTORIES)) | grep -v '^=== '

.PHONY: payout-stories
payout-stories: postgres ## Run the end-to-end tests of earnings, payouts and collateral, on chains, with a kill at each step
	@mkdir -p $(TESTED)
	@. deploy/dev/postgres.env.sh && { $(SUITE) $(E2E)/settlement $(ENDED); } | $(SHOW)/settlement.json -again 2

.PHONY: bench-batch
bench-batch: postgres ## Measure a daily batch of 10^6 lines and a CSV of 10^7 rows: lines a second, heap, first row
	@. deploy/dev/postgres.env.sh && cd services/settlement && go test -run '^$$' -bench '^Benchmark(Batch|Export)$$' -benchtime 1x -timeout 60m ./internal/store

.PHONY: bench-hub
bench-hub: postgres ## Measure one hub with 10,000 agents: memory, a mass cut, streams that share a socket, half-open connections
	@. deploy/dev/postgres.env.sh && deploy/dev/bench-hub.sh

.PHONY: bench-growth
bench-growth: postgres ## Measure whether a request costs the same with more providers, accounts, lines, streams, longer answers (BENCH_MAX=small)
	@. deploy/dev/postgres.env.sh && deploy/dev/bench-growth.sh

.PHONY: alerts-check
alerts-check: ## Check the rules of deploy/alerts and run their unit tests (promtool)
	@tool=$$(deploy/dev/prometheus.sh) && $$tool/promtool check rules deploy/alerts/*.yaml >/dev/null && \
	  $$tool/promtool test rules deploy/alerts/tests/*.yaml

.PHONY: watch-check
watch-check: postgres ## Hold dashboards, alerts and objectives to a real fleet and a real Prometheus, and bring faults about
	@. deploy/dev/postgres.env.sh && tool=$$(deploy/dev/prometheus.sh) && \
	  PROMETHEUS_BIN=$$tool go test -tags watch -count=1 -vet=off -ldflags=-w -timeout 60m -v ./services/proving/e2e/watch

.PHONY: build
build: ## Build every program into .bin
	@mkdir -p $(BIN)
	@go build -o $(BIN)/ $(COMMANDS)

.PHONY: sbom
sbom: build ## Write what each program is made of, as CycloneDX, to .bin/sbom
	@cd deploy/sbom && GOWORK=off go run . -out $(BIN)/sbom $(addprefix $(BIN)/,$(notdir $(COMMANDS)))

.PHONY: images
images: ## Write an OCI image of each service and of the agent to .bin/images (PLATFORMS=linux/amd64 for one platform)
	@GOWORK=off go -C deploy/images run . -tree $(CURDIR) -out $(BIN)/images $(if $(PLATFORMS),-platforms $(PLATFORMS))

AGENTS = GOWORK=off go -C deploy/images run . -tree $(CURDIR) -agents $(if $(PLATFORMS),-platforms $(PLATFORMS)) \
  $(if $(AGENTS_KEY),-sign $(abspath $(AGENTS_KEY)))

.PHONY: agents
agents: ## Write archives of the agent for Linux and macOS, Debian packages, checksums and install.sh to .bin/agents (AGENTS_KEY=file signs)
	@$(AGENTS) -out $(BIN)/agents

.PHONY: agents-check
agents-check: agents ## Build the agent's archives again with nothing cached, compare them, inspect each, and install and start one
	@again=$$(mktemp -d) && trap 'rm -rf $$again' EXIT && \
	  GOCACHE=$$again/cache $(AGENTS) -out $$again/agents >/dev/null && \
	  diff -r $(BIN)/agents $$again/agents && (cd $(BIN)/agents && sha256sum --quiet -c SHA256SUMS) && \
	  (cd deploy/images && SVC_AGENTS=$(BIN)/agents GOWORK=off go test -count=1 -run 'EachBuilt' .) && \
	  $(BIN)/agents/install.sh --to $$again/bin && $$again/bin/svc-agent help >/dev/null && \
	  echo "  The agent's archives are the same when they are built again."

.PHONY: images-check
images-check: images ## Build the images again from a copy of the tree, compare the digests, and start each program in its image
	@deploy/images/again.sh $(BIN)/images $(PLATFORMS)
	@cd deploy/images && SVC_IMAGES=$(BIN)/images GOWORK=off go test -count=1 ./...

.PHONY: images-sdk
images-sdk: images postgres ## Run the official SDKs against a fleet of the images' programs
	@GOWORK=off go -C deploy/images run . -out $(BIN)/images -unpack $(BIN)/image-programs -platforms linux/$$(go env GOHOSTARCH)
	@. deploy/dev/postgres.env.sh && SVC_BIN_DIR=$(BIN)/image-programs SVC_E2E_FORM=fleet \
	  go test -count=1 -timeout 20m -run SDK ./services/proving/e2e

.PHONY: chart-fleet
chart-fleet: images postgres ## Run the official SDKs against a fleet of the images' programs, with what the chart renders for each
	@GOWORK=off go -C deploy/images run . -out $(BIN)/images -unpack $(BIN)/image-programs -platforms linux/$$(go env GOHOSTARCH)
	@mkdir -p .run && tool=$$(deploy/dev/tool.sh helm) && $$tool/helm template market charts/svc --namespace market \
	  --kube-version 1.30.0 -f services/proving/internal/chart/values.yaml -f $(BIN)/images/values.yaml >.run/chart-fleet.yaml
	@. deploy/dev/postgres.env.sh && SVC_E2E_CHART=$(CURDIR)/.run/chart-fleet.yaml SVC_BIN_DIR=$(BIN)/image-programs \
	  SVC_E2E_FORM=fleet go test -count=1 -timeout 20m -run 'SDK|RunsByTheChart' ./services/proving/e2e

.PHONY: lint
lint: ## Run the linters
	@tool=$$(deploy/dev/tool.sh buf) && $$tool/buf lint && $$tool/buf breaking --against proto/baseline.binpb
	@tool=$$(deploy/dev/tool.sh golangci-lint) && $$tool/golangci-lint run $(MODULES:%=./%/...) && \
	  for m in $(LINTED_APART); do (cd $$m && GOWORK=off $$tool/golangci-lint run ./...) || exit; done

CHART = tools=$$(deploy/dev/tool.sh helm) && validate=$$(deploy/dev/tool.sh kubectl-validate) && \
  export CHART_HELM=$$tools/helm CHART_VALIDATE=$$validate/kubectl-validate CHART_PROGRAMS=$(BIN)/fleet && \
  cd charts/check && GOWORK=off go test -count=1

.PHONY: chart-check
chart-check: programs ## Check the chart: helm lint, six sets of values rendered, refusals, kubectl-validate, and each program's -check
	@go test -count=1 -vet=off -run TheChart ./services/standalone
	@$(CHART) .

.PHONY: chart-e2e
chart-e2e: programs postgres # Install, upgrade, test and uninstall the chart on a real API server of Kubernetes (some ten minutes the first time)
	@. deploy/dev/postgres.env.sh && kube=$$(deploy/dev/tool.sh kube-apiserver) && export CHART_KUBE=$$kube && \
	  $(CHART) -timeout 30m -run TestCluster .

.PHONY: chart-update
chart-update: programs # Writes what the chart copies and what follows from the programs and from values.yaml
	@go test -count=1 -vet=off -run TheChart ./services/standalone -update-chart
	@$(CHART) -run 'Chart|Schema' . -update

.PHONY: generate
generate: ## Generate code from the contracts
	@$(GENERATE)

.PHONY: generate-check
generate-check: # Fails if the generated code is not what the contracts say
	@into=$$(mktemp -d) && trap 'rm -rf "$$into"' EXIT && $(GENERATE) -o "$$into" && \
	  diff -rq -x '*.proto' "$$into/proto/svc" proto/svc || (echo "generated code differs: run make generate"; exit 1)

.PHONY: contracts
contracts: ## Compile the contracts on chains anew (needs node)
	@into=$$(mktemp -d) && trap 'rm -rf "$$into"' EXIT && $(COMPILE) "$$into" && \
	  rm -rf $(CONTRACTS)/artifacts && cp -r "$$into" $(CONTRACTS)/artifacts && chmod -R u=rwX,go=rX $(CONTRACTS)/artifacts

.PHONY: contracts-check
contracts-check: # Fails if the committed artifacts are not the bytes that the contracts compile to
	@into=$$(mktemp -d) && trap 'rm -rf "$$into"' EXIT && $(COMPILE) "$$into" && \
	  diff -r "$$into" $(CONTRACTS)/artifacts || (echo "artifacts differ: run make contracts"; exit 1)

.PHONY: baseline
baseline: postgres ## Make the present contracts and tables what later ones are held to (the commit says why)
	@tool=$$(deploy/dev/tool.sh buf) && $$tool/buf build --exclude-source-info -o proto/baseline.binpb
	@. deploy/dev/postgres.env.sh && PGTEST_BASELINE=1 go test -count=1 -run OfTheBaseline \
	  $(patsubst %/schema_test.go,./%,$(wildcard services/*/internal/store/schema_test.go services/*/*/internal/store/schema_test.go))

.PHONY: tidy
tidy: ## Bring every go.mod and go.sum in order
	@for m in $(MODULES) $(APART); do (cd $$m && GOWORK=off go mod tidy); done
	@go work sync

.PHONY: drift
drift: apart contracts-check ## Hold each module to its go.mod by itself, the contracts to their artifacts, and the tree to the rules of deploy/check
	@printf '%s\n' $(MODULES) $(APART) | \
	  xargs -P2 -I{} bash -c 'cd {} && GOWORK=off go mod tidy -diff && \
	    GOWORK=off go list -deps ./... >/dev/null || { echo "  {} is not in order by itself: see above, or run make tidy"; exit 1; }'
	@go work sync && git diff --exit-code -- go.work '*go.mod' # so a module has the versions that the workspace compiles

.PHONY: verify
verify: drift generate-check chart-check lint unit ## Everything that must hold before a change lands

.PHONY: prepare
prepare: postgres ## Install the tools and compile what others wrote, so that the checks find them
	@deploy/dev/curl-jq.sh
	@deploy/dev/chromium.sh
	@$(MAKE) --no-print-directory console-packages
	@for t in buf generators golangci-lint anvil solidity; do deploy/dev/tool.sh $$t >/dev/null; done
	@deploy/engine/build.sh
	@others=$$(go list -deps -test -f '{{with .Module}}{{if not .Main}}{{$$.ImportPath}}{{end}}{{end}}' work) && \
	  go list -export $$others >/dev/null && go list -export -race $$others >/dev/null

.PHONY: reference
reference: # The work by which .ci/run compares machines: it compiles gofmt anew, with the standard library
	@go build -a -o /dev/null cmd/gofmt

.PHONY: console
console: console-packages ## Check and test the console's program, and build its pages anew into services/console/dist (needs node)
	@cd services/console && npm run --silent types && npm run --silent check && npm test --silent && npm run --silent build

.PHONY: console-packages
console-packages: # Installs what the console's lock file names, unless it is there
	@cd services/console && { [ node_modules/.package-lock.json -nt package-lock.json ] || npm ci --silent --ignore-scripts; }

.PHONY: console-check
console-check: console # Fails if the committed pages are not what the sources make
	@changed=$$(git status --porcelain -- services/console/dist) && [ -z "$$changed" ] || \
	  { echo "$$changed"; echo "  The console's pages differ from its sources: run make console, and commit dist."; exit 1; }

.PHONY: console-e2e
console-e2e: postgres ## Open each page of the console in Chromium, and go through what users do there (CONSOLE_TESTS=name of a file)
	@. deploy/dev/postgres.env.sh && go test -count=1 -vet=off -timeout 40m -v ./services/proving/e2e/console

.PHONY: screenshots
screenshots: ## Write pictures of the console's pages at 1440 and 360 pixels, light and dark, to .run/screenshots (CONSOLE_NAMES=regexp)
	@SCREENSHOTS=$(CURDIR)/.run/screenshots CONSOLE_TESTS="$(or $(CONSOLE_TESTS),pages pictures)" $(MAKE) --no-print-directory console-e2e

.PHONY: pictures
pictures: ## Write the pictures that the READMEs show, light and dark, to services/console/pictures
	@PICTURES=$(CURDIR)/services/console/pictures CONSOLE_TESTS=pictures CONSOLE_NAMES='^pictures of READMEs' \
	  $(MAKE) --no-print-directory console-e2e

.PHONY: postgres
postgres: # Makes sure that PostgreSQL's server programs are there
	@deploy/dev/postgres.sh
