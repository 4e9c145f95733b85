#!/usr/bin/env bash
# Holds a steady load on the product in one process for an hour and reads what it holds meanwhile:
# memory, goroutines, open files, the hub's journal, NATS's streams, every table. It prints how
# fast each grows, with its interval. Nothing else should run on the machine.
#
#   deploy/dev/soak.sh [--json]
#   SOAK_FOR=1h       how long it lasts; at least 2m
#   SOAK_RATE=50      whole answers a second
#   SOAK_STREAMS=32   streams that are open all the time
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD
run=$root/.run/soak
bin=$root/.bin/bench
. deploy/dev/processes.sh
read_json "$@"

make_run "$bin"
rm -f "$run"/*.log
need_free 9100 9180 9181 9182 9183

echo "  Building ..."
(cd deploy/bench && GOWORK=off go build -o "$bin/" ./cmd/mockengine ./cmd/probe ./cmd/soak)
go build -o "$bin/" ./services/standalone/cmd/standalone ./services/provider-agent/cmd/svc-agent

echo "  Starting the product on an empty directory ..."
empty "$run/product"
start engine "$bin/mockengine" -models mock-t16,mock-t128-c1,mock-t32-f0-d20-c1,mock-t256-f0-d20-c1,mock-t100-f0-d100-c1
SVC_HTTP_ADDR=127.0.0.1:9180 SVC_OPERATOR_ADDR=127.0.0.1:9183 SVC_WS_ADDR=127.0.0.1:9181 SVC_METRICS_ADDR=127.0.0.1:9182 SVC_DATA_DIR="$run/product" \
  SVC_VERIFIER_DEVELOPMENT=true SVC_VERIFIER_PROBES=false SVC_VERIFIER_BENCHMARKS_WAIVED=true \
  SVC_DEMO_AGENT=off SVC_LOG_LEVEL=error start product "$bin/standalone"
product=${pids[-1]}
"$bin/probe" ready -pid "$product" -url http://127.0.0.1:9182/readyz -url http://127.0.0.1:9180/v1/models
env=$run/product/demo.env
wait_file "$env" 30
(with_env "$env" bash -c '"$0" seed -url "$SVC_ADMIN_URL" -models deploy/bench/conf/models.json' "$bin/probe")
start agent with_env "$env" "$bin/svc-agent" run --models deploy/bench/conf/models.json --state "$run/agent"
"$bin/probe" ready -url http://127.0.0.1:9180/v1/models -has '"mock-t256-f0-d20-c1"' -timeout 30s

(with_env "$env" "$bin/soak" -pid "$product" -admin http://127.0.0.1:9182 \
  -folders "journal=$run/product/journal,NATS=$run/product/nats" \
  -for "${SOAK_FOR:-1h}" -rate "${SOAK_RATE:-50}" -streams "${SOAK_STREAMS:-32}" \
  -interval "$([[ ${SOAK_FOR:-1h} == *h ]] && echo 10s || echo 2s)" $json) >&3
