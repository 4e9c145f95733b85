#!/usr/bin/env bash
# Measures the product, in one process, as a fleet, and as a fleet with grouped
# services, beside nginx (if it is installed), a bare Go proxy and the floor of its own shape, all in front
# of one mock engine on loopback, and holds the figures against the gates. What
# is measured and how to read it: deploy/bench/README.md.
#
# --json prints one JSON object to standard output, and all else to standard
# error. The environment narrows or widens it:
#   BENCH_ROUNDS=5      rounds of each load; medians are taken over them
#   BENCH_QUICK=1       a quarter of the time for each load: a smoke test, no figures
#   BENCH_ALL=1         2,000 streams, too
#   BENCH_ONLY=LIST     these loads alone: chat-16,live20-*
#   BENCH_TARGETS=LIST  these targets alone: nginx,standalone
#   BENCH_PROFILE=1     profiles of the product under chat-16; or LIST of loads
#   BENCH_KINDS=LIST    kinds of profiles, cpu by default: cpu,mutex,block,allocs
#   BENCH_README=0|1    whether the table in README.md and the plot that it shows
#                       are renewed; by default they are unless one of the above
#                       makes figures partial
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD
run=$root/.run/bench
bin=$root/.bin/bench
results=$run/results.jsonl
. deploy/dev/processes.sh
read_json "$@"
quick=${BENCH_QUICK:-}
[ "$quick" != 0 ] || quick=
rounds=${BENCH_ROUNDS:-$([ -n "$quick" ] && echo 1 || echo 5)}
ulimit -n 20000 2>/dev/null || echo "  (at most $(ulimit -n) files: many streams will fail)"

begun=$SECONDS
at=$SECONDS
step() { at=$SECONDS; echo "  $* ..."; }
took() { echo "    $((SECONDS - at)) s"; }

answers() {
  for _ in $(seq 300); do
    if in_use "$1"; then return 0; fi
    alive || break
    sleep 0.1
  done
  echo "nothing answers on port $1; see $run" >&2
  exit 1
}
# wanted says whether a target is among those asked for.
wanted() { [[ -z ${BENCH_TARGETS:-} || ,$BENCH_TARGETS, == *,$1,* ]]; }
probe() { "$bin/probe" "$@" -out "$results"; }

make_run "$bin"
rm -f "$results" "$run"/*.log "$run"/target-*.json "$run"/keys-*.json
need_free 9100 9101 9102 9108 9109 9110 9111 9112 9113 9180 9181 9182 9183

step "Building"
(cd deploy/bench && GOWORK=off go build -o "$bin/" ./cmd/...)
go build -o "$bin/" ./services/standalone/cmd/standalone ./services/provider-agent/cmd/svc-agent
if wanted fleet || wanted grouped; then
  programs=(./services/proving/cmd/fleet ./services/proving/cmd/tinylm github.com/nats-io/nats-server/v2
    ./services/settlement/cmd/chain-signer)
  for service in catalog billing-ledger settlement router provider-hub verifier edge-gateway; do
    programs+=("./services/$service/cmd/$service")
  done
  go build -o "$bin/" "${programs[@]}"
fi
# The program that pkg/pg/pgserver finds, whose versions sort as numbers do.
postgres=$(PATH="${PGBIN:+$PGBIN:}$PATH" && { command -v postgres || ls -v /usr/lib/postgresql/*/bin/postgres 2>/dev/null | tail -n 1; } || true)
probe machine -postgres "${postgres:+$("$postgres" --version)}"
took

if [ -z "${BENCH_ONLY:-}" ]; then
  step "The ledger and the usage journal alone, about $([ -n "$quick" ] && echo 20 || echo 60) s"
  benchmark() { # module, package, pattern, time
    (cd "$1" && go test -timeout 5m -run '^$' -bench "$3" -benchtime "$4" "$2")
  }
  benchmark services/billing-ledger ./internal/store 'Admissions/./accounts/callers=64' "$([ -n "$quick" ] && echo 2000x || echo 20000x)" | probe gobench -target ledger
  benchmark services/billing-ledger ./internal/store 'Settles/./accounts=32' "$([ -n "$quick" ] && echo 2000x || echo 20000x)" | probe gobench -target ledger
  benchmark services/provider-hub ./internal/journal 'Final/writers=512' "$([ -n "$quick" ] && echo 0.3s || echo 2s)" | probe gobench -target hub
  took
fi

step "Starting the engine and what stands beside the product"
models=mock-t16,mock-t128-c1,mock-t32-f0-d20-c1,mock-t256-f0-d20-c1,mock-t100-f0-d100-c1
start engine "$bin/mockengine" -models "$models"
targets=direct
reference=goproxy
answers 9100
if wanted nginx && command -v nginx >/dev/null; then
  start nginx nginx -p "$run" -c "$root/deploy/bench/conf/nginx.conf" -e stderr
  answers 9101
  targets+=,nginx
  reference=nginx
fi
start goproxy "$bin/goproxy"
answers 9102
targets+=,goproxy
if wanted wsmono; then
  start wsmono "$bin/wsfloor" -role mono -listen 127.0.0.1:9108 -ws-listen 127.0.0.1:9113
  answers 9113
  start wsmono-agent "$bin/wsfloor" -role agent -ws ws://127.0.0.1:9113/ws
  targets+=,wsmono
fi
if wanted wssplit; then
  start wssplit-hub "$bin/wsfloor" -role hub -ws-listen 127.0.0.1:9110 -grpc-listen 127.0.0.1:9111
  start wssplit-side "$bin/wsfloor" -role side -grpc-listen 127.0.0.1:9112
  answers 9110
  answers 9112
  start wssplit-agent "$bin/wsfloor" -role agent -ws ws://127.0.0.1:9110/ws
  start wssplit-edge "$bin/wsfloor" -role edge -listen 127.0.0.1:9109
  answers 9109
  targets+=,wssplit
fi
took

added=()
# agent NAME NUMBER ENV-FILE [WS-URL]: a provider, which is no cost of the
# product.
agent() {
  start "$1-agent-$2" with_env "$3" env ${4:+SVC_WS_URL="$4"} "$bin/svc-agent" run --models deploy/bench/conf/models.json --state "$run/$1-agent-$2"
}
# target NAME PID ENV-FILE PPROF-URLS METRICS-URLS makes it known to compare, with
# the keys that seed made. The URLs are JSON arrays.
target() {
  (with_env "$3" bash -c 'printf "{\"name\":\"%s\",\"base\":\"%s/v1\",\"key\":\"%s\",\"keys\":%s,\"pids\":[%s],\"except\":[\"svc-agent\",\"tinylm\"],\"pprof\":%s,\"metrics\":%s}\n" "$0" "$SVC_BASE_URL" "$SVC_API_KEY" "$4" "$1" "$2" "$3"' "$1" "$2" "$4" "$5" "$(cat "$run/keys-$1.json")") >"$run/target-$1.json"
  added+=(-add "$run/target-$1.json")
  targets+=,$1
}
base_url() { (with_env "$1" bash -c 'echo "$SVC_BASE_URL"'); }
# seed NAME ENV-FILE: models, and 32 accounts with 64 keys.
seed() { (with_env "$2" bash -c '"$0" seed -url "$SVC_ADMIN_URL" "$@"' "$bin/probe" -models deploy/bench/conf/models.json -accounts 32 -keys "$run/keys-$1.json" -out "$results"); }
wait_models() {
  probe ready -url "$(base_url "$1")/v1/models" -has '"mock-t256-f0-d20-c1"' -timeout 30s
}

standalone() { # [measure]
  local started
  started=$(date +%s%N)
  SVC_HTTP_ADDR=127.0.0.1:9180 SVC_OPERATOR_ADDR=127.0.0.1:9183 SVC_WS_ADDR=127.0.0.1:9181 SVC_METRICS_ADDR=127.0.0.1:9182 SVC_DATA_DIR="$run/standalone" \
    SVC_VERIFIER_DEVELOPMENT=true SVC_VERIFIER_PROBES=false SVC_VERIFIER_BENCHMARKS_WAIVED=true \
    SVC_DEMO_AGENT=off SVC_LOG_LEVEL=error start standalone "$bin/standalone"
  probe ready -pid "${pids[-1]}" ${1:+-name "$1"} -target standalone -since "$started" -url http://127.0.0.1:9182/readyz -url http://127.0.0.1:9180/v1/models
  wait_file "$run/standalone/demo.env" 30
}
if wanted standalone; then
  step "Starting the product in one process, on an empty directory"
  empty "$run/standalone"
  standalone ready_cold_ms
  step "Starting it again"
  end_last
  standalone ready_warm_ms
  took
  if [ -z "${BENCH_ONLY:-}" ]; then
    # In a process that starts again and ends afterwards: the passwords that the
    # first start hashes leave 64 MiB that would hide what sockets take, and what
    # sockets have taken would hide what streams take later.
    step "Idle provider sockets, about $([ -n "$quick" ] && echo 9 || echo 19) s"
    (with_env "$run/standalone/demo.env" "$bin/idle" -pid "${pids[-1]}" -each "$([ -n "$quick" ] && echo 20 || echo 60)" -out "$results")
    end_last
    standalone
    took
  fi
  step "Making its models and accounts"
  seed standalone "$run/standalone/demo.env"
  target standalone "${pids[-1]}" "$run/standalone/demo.env" '["http://127.0.0.1:9182"]' '[]'
  # The hub gives one connection 1,024 requests of a model at once.
  for n in 1 ${BENCH_ALL:+2}; do agent standalone "$n" "$run/standalone/demo.env"; done
  wait_models "$run/standalone/demo.env"
  took
fi

# of NAME FILE: a setting in a process's configuration.
of() { sed -n "s/^ *$1: *\"\{0,1\}\([^\"]*\)\"\{0,1\}\$/\1/p" "$2" | head -n 1; }
# fleet NAME MEASURE: NAME is fleet, or grouped for one whose gateways, hubs and routers share processes.
fleet() {
  local dir=$run/$1 flags=() last=edge-gateway-2 front=edge-gateway-1 started urls=() file
  if [ "$1" = grouped ]; then flags=(-grouped) last=verifier-2 front=provider-hub-1; fi
  rm -rf "$dir/config" "$dir/fleet.env"
  started=$(date +%s%N)
  ENGINE_URL=http://127.0.0.1:9100/v1 SVC_LOG_LEVEL=error start "$1" "$bin/fleet" run -dir "$dir" -bin "$bin" -free-ports -references 0 "${flags[@]}"
  # The files with the addresses are written before the services start; that
  # of the last one is written last.
  wait_file "$dir/config/$last.yaml" 60
  for file in "$dir"/config/*.yaml; do urls+=(-url "http://$(of admin_addr "$file")/readyz"); done
  probe ready -pid "${pids[-1]}" -name "$2" -target "$1" -since "$started" "${urls[@]}" -url "http://$(of http_addr "$dir/config/$front.yaml")/v1/models"
  wait_file "$dir/fleet.env" 60
}
# fleet_target NAME SERVICE...: profiles are taken of these.
fleet_target() {
  local name=$1 profiles='' metrics='' file service n
  local dir=$run/$name
  shift
  step "Starting the product as a fleet ($name), on an empty directory"
  empty "$dir"
  fleet "$name" ready_cold_ms
  step "Starting it again"
  end_last
  fleet "$name" ready_warm_ms
  for file in "$dir"/config/*.yaml; do metrics+=",\"http://$(of admin_addr "$file")\""; done
  for service in "$@"; do profiles+=",\"http://$(of admin_addr "$dir/config/$service.yaml")\""; done
  seed "$name" "$dir/fleet.env"
  target "$name" "${pids[-1]}" "$dir/fleet.env" "[${profiles#,}]" "[${metrics#,}]"
  for n in 1 2; do agent "$name" "$n" "$dir/fleet.env" "ws://$(of ws_addr "$dir/config/provider-hub-$n.yaml")"; done
  wait_models "$dir/fleet.env"
  took
}
if wanted grouped; then fleet_target grouped billing-ledger-1 provider-hub-1 provider-hub-2; fi
if wanted fleet; then fleet_target fleet edge-gateway-1 billing-ledger-1 router-1 provider-hub-1 provider-hub-2; fi

loads=(-config deploy/bench/conf/compare.json "${added[@]}" -targets "$targets" -out "$results" -sync-dir "$run" -rounds "$rounds")
[ -z "$quick" ] || loads+=(-shorten 0.25)
[ -z "${BENCH_PROFILE:-}" ] || loads+=(-profiles "$run/profiles" -profile "$([ "$BENCH_PROFILE" = 1 ] && echo chat-16 || echo "$BENCH_PROFILE")" -kinds "${BENCH_KINDS:-cpu}")
[ -n "${BENCH_ONLY:-}" ] || loads+=(-idle "$([ -n "$quick" ] && echo 3s || echo 15s)")
if [ -n "${BENCH_ONLY:-}" ]; then
  loads+=(-only "$BENCH_ONLY")
elif [ -n "${BENCH_ALL:-}" ]; then
  loads+=(-only 'chat-1,chat-16,chat-16-many,open-*,streams-mem,body32k-16,first-64,live20-*')
fi
step "Loads on $targets, $rounds round(s), about $("$bin/compare" "${loads[@]}" -estimate)"
"$bin/compare" "${loads[@]}" >"$run/tables.md"
took
echo "  All tables are in $run/tables.md, raw results in $results"

document=
case ${BENCH_README:-} in
1) document=README.md ;;
0) ;;
*) [ -n "$quick${BENCH_ONLY:-}${BENCH_TARGETS:-}" ] || document=README.md ;;
esac
"$bin/report" -in "$results" -reference "$reference" ${document:+-document "$document" -plot deploy/bench/price.svg} $json >&3
[ -z "$document" ] || echo "  The table in $document and the plot deploy/bench/price.svg are renewed."
echo "  All of it took $((SECONDS - begun)) s."
