#!/usr/bin/env bash
# Measures one hub with 10,000 agents: memory of a session, a mass cut, a
# stalled stream, a large body, connections that are half open. The hub and the
# router are processes of their own, the other services share one, and all agents
# are in another. What is measured and how to read it: deploy/bench/README.md.
#
# --json prints one JSON object to standard output, and all else to standard
# error. The environment narrows it:
#   BENCH_AGENTS=10000  agents; half of them speak dialect v1
#   BENCH_ONLY=LIST     these parts alone: crowd,streams,silent
#   BENCH_PROFILE=1     profiles of hub and router: memory with all agents, CPU of
#                       the cut; in .run/bench-hub/profiles
# A missed gate does not fail it.
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD
run=$root/.run/bench-hub
bin=$root/.bin/bench
. deploy/dev/processes.sh
read_json "$@"
agents=${BENCH_AGENTS:-10000}
# The hub and the process of the agents have a file for each agent.
ulimit -n "$(ulimit -Hn)"
files=$(ulimit -n)
if [ "$files" != unlimited ] && [ "$files" -lt $((agents + 1000)) ]; then
  echo "$agents agents need $((agents + 1000)) open files in one process, and $files are allowed: raise ulimit -n, or set BENCH_AGENTS" >&2
  exit 1
fi

begun=$SECONDS
# wait_for WHAT COMMAND...: until it succeeds, a minute at most.
wait_for() {
  local what=$1
  shift
  for _ in $(seq 600); do
    if "$@"; then return 0; fi
    alive || break
    sleep 0.1
  done
  echo "$what did not come up; see $run" >&2
  exit 1
}

make_run "$bin"
rm -f "$run"/*.log
need_free $(seq 9280 9290)
http=127.0.0.1:9280 ws=127.0.0.1:9281 nats=127.0.0.1:9282 rest=127.0.0.1:9283 hub=127.0.0.1:9284 router=127.0.0.1:9285
rest_admin=127.0.0.1:9286 hub_admin=127.0.0.1:9287 router_admin=127.0.0.1:9288 floor=127.0.0.1:9289 operators=127.0.0.1:9290

echo "  Building ..."
(cd deploy/bench && GOWORK=off go build -o "$bin/" ./cmd/hub ./cmd/crowd ./cmd/wsfloor ./cmd/probe)
go build -o "$bin/" ./services/standalone/cmd/standalone ./services/provider-hub/cmd/provider-hub ./services/router/cmd/router

echo "  Starting the product in three processes, on an empty directory ..."
empty "$run/product"
mkdir -p "$run/product/secrets"
secret() { od -An -N32 -tx1 /dev/urandom | tr -d ' \n'; }
export SVC_PEPPER SVC_ADMIN_TOKEN SVC_NATS_SECRET SVC_LOG_LEVEL=warn
SVC_PEPPER=$(secret) SVC_ADMIN_TOKEN=$(secret) SVC_NATS_SECRET=$(secret)
SVC_DATA_DIR=$run/product SVC_NATS_ADDR=$nats SVC_GRPC_ADDR=$rest SVC_METRICS_ADDR=$rest_admin SVC_HTTP_ADDR=$http SVC_OPERATOR_ADDR=$operators SVC_MACHINE_TOKENS=bench:admin:$(printf %s "$SVC_ADMIN_TOKEN" | sha256sum | cut -c1-64) \
  SVC_VERIFIER_DEVELOPMENT=true SVC_VERIFIER_PROBES=false SVC_VERIFIER_BENCHMARKS_WAIVED=true \
  SVC_PEERS=router=$router,provider-hub=$hub start rest \
  "$bin/standalone" -services catalog,billing-ledger,chain-signer,settlement,verifier,edge-gateway
wait_for "NATS" in_use "${nats#*:}"
if [ -z "${DATABASE_URL:-}" ]; then
  # The server that it has started, as its folder describes it.
  place=$(readlink -f "$run/product/postgres")
  DATABASE_URL="postgres://svc:$(<"$place/password")@127.0.0.1:$(sed -n 4p "$place/data/postmaster.pid")/postgres?sslmode=disable"
  export DATABASE_URL
fi
# Nobody else has made the hub's tables.
DATABASE_OWNER_URL=$DATABASE_URL "$bin/provider-hub" migrate
export SVC_NATS_URL=nats://$nats
peers=catalog=$rest,billing-ledger=$rest,settlement=$rest
SVC_GRPC_ADDR=$router SVC_METRICS_ADDR=$router_admin SVC_PEERS=catalog=$rest,provider-hub=$hub start router "$bin/router"
router_pid=${pids[-1]}
# All agents and the few that are not cut are more than the 10,000 sockets that
# a hub takes by default.
SVC_GRPC_ADDR=$hub SVC_METRICS_ADDR=$hub_admin SVC_WS_ADDR=$ws SVC_HUB_ID=hub-1 SVC_JOURNAL_DIR=$run/product/journal \
  SVC_HUB_MAX_SOCKETS=$((agents + 1000)) SVC_PEERS=$peers start hub "$bin/provider-hub"
hub_pid=${pids[-1]}
start floor "$bin/wsfloor" -role hub -ws-listen "$floor" -grpc-listen 127.0.0.1:0
floor_pid=${pids[-1]}
unset DATABASE_URL SVC_NATS_URL SVC_PEPPER
"$bin/probe" ready -pid "${pids[0]}" -url "http://$rest_admin/readyz" -url "http://$router_admin/readyz" -url "http://$hub_admin/readyz"

"$bin/hub" -agents "$agents" -base "http://$http" -admin "http://$operators" -ws "ws://$ws" -crowd "$bin/crowd" -dir "$run" \
  -hub "$hub_pid,http://$hub_admin" -router "$router_pid,http://$router_admin" -floor "$floor_pid,ws://$floor/ws" \
  ${BENCH_ONLY:+-only "$BENCH_ONLY"} ${BENCH_PROFILE:+-profiles "$run/profiles"} $json >&3
echo "  All of it took $((SECONDS - begun)) s."
