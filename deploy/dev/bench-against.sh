#!/usr/bin/env bash
# Compares what a request and a streamed event cost at two commits: both
# products run side by side in one process each, behind one mock engine, and
# take turns under the same loads, round by round. It prints CPU and allocations
# with the median of the rounds' ratios and its interval. Nothing else should
# run on the machine.
#
#   deploy/dev/bench-against.sh COMMIT [--json]    COMMIT against the work tree
#   BENCH_ROUNDS=9      rounds of each load; below six there is no interval
#   BENCH_ONLY=LIST     these loads: chat-16,body32k-16,live20-64
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD
run=$root/.run/against
bin=$root/.bin/against
results=$run/results.jsonl
. deploy/dev/processes.sh
usage="COMMIT [--json]"
[ $# -gt 0 ] || fail_usage
read_json "${@:2}"
commit=$(git rev-parse --verify --quiet "$1^{commit}") || { echo "$1 is no commit of this repository" >&2; exit 2; }

make_run "$bin/base" "$bin/head"
rm -f "$results" "$run"/*.log "$run"/target-*.json
need_free 9100 9102 918{0,1,2,3} 928{0,1,2,3}

echo "  Building both commits ..."
(cd deploy/bench && GOWORK=off go build -o "$bin/" ./cmd/...)
rm -rf "$run/source"
mkdir -p "$run/source"
git archive "$commit" | tar -x -C "$run/source"
programs=(./services/standalone/cmd/standalone ./services/provider-agent/cmd/svc-agent)
(cd "$run/source" && go build -o "$bin/base/" "${programs[@]}")
go build -o "$bin/head/" "${programs[@]}"
rm -rf "$run/source"

start engine "$bin/mockengine" -models mock-t16,mock-t128-c1,mock-t32-f0-d20-c1,mock-t256-f0-d20-c1,mock-t100-f0-d100-c1

# product NAME PORTS: one process, its models and its agent, made known to
# compare. PORTS is what its four ports begin with.
product() {
  local name=$1 port=$2 env=$run/$1/demo.env
  echo "  Starting $name ..."
  empty "$run/$name"
  SVC_HTTP_ADDR=127.0.0.1:${port}0 SVC_WS_ADDR=127.0.0.1:${port}1 SVC_METRICS_ADDR=127.0.0.1:${port}2 SVC_OPERATOR_ADDR=127.0.0.1:${port}3 \
    SVC_VERIFIER_DEVELOPMENT=true SVC_VERIFIER_PROBES=false SVC_VERIFIER_BENCHMARKS_WAIVED=true \
    SVC_DATA_DIR="$run/$name" SVC_DEMO_AGENT=off SVC_LOG_LEVEL=error start "$name" "$bin/$name/standalone"
  local pid=${pids[-1]}
  wait_file "$env" 60
  # Commits before the operator listener serve operators on the public one.
  (with_env "$env" bash -c '"$0" seed -url "${SVC_ADMIN_URL:-$SVC_BASE_URL}" "$@"' "$bin/probe" -models deploy/bench/conf/models.json -out "$results")
  start "$name-agent" with_env "$env" "$bin/$name/svc-agent" run --models deploy/bench/conf/models.json --state "$run/$name-agent"
  "$bin/probe" ready -url "http://127.0.0.1:${port}0/v1/models" -has '"mock-t256-f0-d20-c1"' -timeout 60s -out "$results"
  (with_env "$env" bash -c 'printf "{\"name\":\"%s\",\"base\":\"%s/v1\",\"key\":\"%s\",\"pids\":[%s],\"except\":[\"svc-agent\",\"tinylm\"],\"pprof\":[\"%s\"]}\n" "$0" "$SVC_BASE_URL" "$SVC_API_KEY" "$1" "$2"' \
    "$name" "$pid" "http://127.0.0.1:${port}2") >"$run/target-$name.json"
}
product base 918
product head 928

loads=(-config deploy/bench/conf/compare.json -add "$run/target-base.json" -add "$run/target-head.json" -targets direct,base,head
  -only "${BENCH_ONLY:-chat-16,body32k-16,live20-64}" -rounds "${BENCH_ROUNDS:-9}" -out "$results")
echo "  ${commit:0:9} against the work tree, about $("$bin/compare" "${loads[@]}" -estimate) ..."
"$bin/compare" "${loads[@]}" >"$run/tables.md"
echo
"$bin/versus" -in "$results" $json >&3
