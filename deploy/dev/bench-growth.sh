#!/usr/bin/env bash
# Measures whether what a request costs stays the same while one thing grows: connected providers,
# accounts, settled requests, open streams, the length of answers. Each axis has the product in one
# process to itself, on an empty directory. What is measured and how to read it: deploy/bench/README.md.
# Nothing else should run on the machine.
#
#   deploy/dev/bench-growth.sh [--json]
#   BENCH_GROWTH=LIST   these axes alone: providers,accounts,lines,streams,length
#   BENCH_MAX=small     the first two steps of each, and short: a smoke test, no figures
# An axis that is not flat fails nothing.
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD
run=$root/.run/bench-growth
bin=$root/.bin/bench
. deploy/dev/processes.sh
read_json "$@"
all=providers,accounts,lines,streams,length
IFS=, read -ra axes <<<"${BENCH_GROWTH:-$all}"
for axis in "${axes[@]}"; do
  [[ ,$all, == *,$axis,* ]] || { echo "BENCH_GROWTH: there is no axis $axis: the axes are $all" >&2; exit 2; }
done
small=
case ${BENCH_MAX:-} in
'') ;;
small) small=-small ;;
*) echo "BENCH_MAX is small or nothing, not $BENCH_MAX" >&2; exit 2 ;;
esac
# whole AXIS: whether all steps of an axis are taken.
whole() { [[ -z $small && ,${BENCH_GROWTH:-$all}, == *,$1,* ]]; }

ulimit -n "$(ulimit -Hn)"
files=$(ulimit -n)
agents=10000
if whole providers && [ "$files" != unlimited ] && [ "$files" -lt $((agents + 1000)) ]; then
  echo "$agents agents need $((agents + 1000)) open files in one process, and $files are allowed: raise ulimit -n, or leave providers out of BENCH_GROWTH" >&2
  exit 1
fi

begun=$SECONDS

make_run "$bin"
rm -f "$run"/*.log "$run"/axis-*.json
need_free 9100 9180 9181 9182 9183

echo "  Building ..."
(cd deploy/bench && GOWORK=off go build -o "$bin/" ./cmd/mockengine ./cmd/probe ./cmd/crowd ./cmd/growth)
go build -o "$bin/" ./services/standalone/cmd/standalone ./services/provider-agent/cmd/svc-agent

models=deploy/bench/conf/growth.json
# The agent offers what its engine lists.
start engine "$bin/mockengine" -models "$(sed -n 's/.*"model_id": "\([^"]*\)".*/\1/p' "$models" | paste -sd,)"

# product NAME AGENTS: the product on an empty directory, with its models, 64 keys and agents that serve.
product() {
  local env=$run/$1/demo.env n
  empty "$run/$1"
  # The crowd and those that serve are more than the 10,000 sockets that a hub takes by default.
  SVC_HTTP_ADDR=127.0.0.1:9180 SVC_OPERATOR_ADDR=127.0.0.1:9183 SVC_WS_ADDR=127.0.0.1:9181 SVC_METRICS_ADDR=127.0.0.1:9182 SVC_DATA_DIR="$run/$1" \
    SVC_VERIFIER_DEVELOPMENT=true SVC_VERIFIER_PROBES=false SVC_VERIFIER_BENCHMARKS_WAIVED=true SVC_HUB_MAX_SOCKETS=$((agents + 1000)) \
    SVC_DEMO_AGENT=off SVC_LOG_LEVEL=error start "product-$1" "$bin/standalone"
  "$bin/probe" ready -pid "${pids[-1]}" -url http://127.0.0.1:9182/readyz -url http://127.0.0.1:9180/v1/models
  wait_file "$env" 30
  (with_env "$env" bash -c '"$0" seed -url "$SVC_ADMIN_URL" "$@"' "$bin/probe" -models "$models" -accounts 32 -keys "$run/keys.json" -out "$run/probe.jsonl")
  product=${pids[-1]}
  for ((n = 1; n <= $2; n++)); do
    rm -rf "$run/agent-$n"
    start "agent-$1-$n" with_env "$env" "$bin/svc-agent" run --models "$models" --state "$run/agent-$n"
  done
  "$bin/probe" ready -url http://127.0.0.1:9180/v1/models -has '"mock-t256-f0-d20-c1"' -timeout 60s
}

reports=()
for axis in "${axes[@]}"; do
  at=$SECONDS
  echo "  $axis ..."
  # The hub gives one connection 1,024 requests of a model at once.
  serving=1
  if [ "$axis" = streams ] && [ -z "$small" ]; then serving=2; fi
  product "$axis" "$serving"
  (with_env "$run/$axis/demo.env" "$bin/growth" -axis "$axis" $small -pid "$product" -metrics http://127.0.0.1:9182 \
    -keys "$run/keys.json" -crowd "$bin/crowd" -serving "$serving" -out "$run/axis-$axis.json")
  reports+=("$run/axis-$axis.json")
  while [ ${#pids[@]} -gt 1 ]; do end_last; done # all but the engine
  empty "$run/$axis"
  echo "    $((SECONDS - at)) s"
done
"$bin/growth" -report $json "${reports[@]}" >&3
echo "  All of it took $((SECONDS - begun)) s."
