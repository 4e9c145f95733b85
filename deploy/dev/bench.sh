#!/usr/bin/env bash
# Runs the product beside a bare Go proxy, the floor of its own shape and, when
# it is installed, nginx; all in front of one mock engine on loopback, and
# prints ratios. BENCH_ONLY and BENCH_ROUNDS narrow it: BENCH_ONLY='chat-*'.
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD
run=$root/.run/bench
bin=$root/.bin/bench
mkdir -p "$run" "$bin"
ulimit -n 20000 2>/dev/null || true

echo "  Building ..."
(cd deploy/bench && GOWORK=off go build -o "$bin/" ./cmd/...)
go build -o "$bin/" ./services/standalone/cmd/standalone ./services/provider-agent/cmd/svc-agent

pids=()
stop() {
  trap - EXIT
  for ((i = ${#pids[@]} - 1; i >= 0; i--)); do kill "${pids[i]}" 2>/dev/null || true; wait "${pids[i]}" 2>/dev/null || true; done
}
trap stop EXIT
trap 'exit 130' INT TERM
start() {
  local name=$1
  shift
  "$@" >"$run/$name.log" 2>&1 &
  pids+=($!)
}
answers() {
  for _ in $(seq 300); do
    if (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; then return 0; fi
    sleep 0.1
  done
  echo "nothing answers on port $1; see $run" >&2
  exit 1
}

start engine "$bin/mockengine" -models mock-t16,mock-t128-c1,mock-t256-f0-d20-c1,mock-t100-f0-d100-c1
start goproxy "$bin/goproxy"
start wsmono "$bin/wsfloor" -role mono -listen 127.0.0.1:9108 -ws-listen 127.0.0.1:9113
answers 9113
start wsagent "$bin/wsfloor" -role agent -ws ws://127.0.0.1:9113/ws
reference=goproxy
targets='{"name": "direct", "base": "http://127.0.0.1:9100/v1"}'
if command -v nginx >/dev/null; then
  start nginx nginx -p "$run" -c "$root/deploy/bench/conf/nginx.conf" -e stderr
  reference=nginx
  targets+=', {"name": "nginx", "base": "http://127.0.0.1:9101/v1", "key": "sk-bench"}'
fi
targets+=', {"name": "goproxy", "base": "http://127.0.0.1:9102/v1", "key": "sk-bench"}'
targets+=', {"name": "wsmono", "base": "http://127.0.0.1:9108/v1", "key": "sk-bench"}'

# The provider's agent is a process of its own: it is no cost of the product.
rm -f "$run/data/demo.env"
SVC_HTTP_ADDR=127.0.0.1:9180 SVC_WS_ADDR=127.0.0.1:9181 SVC_DATA_DIR="$run/data" SVC_DEMO_AGENT=off \
  SVC_CATALOG=deploy/bench/conf/catalog.yaml SVC_LOG_LEVEL=error start product "$bin/standalone"
answers 9181
for _ in $(seq 300); do
  [ -s "$run/data/demo.env" ] && break
  sleep 0.1
done
set -a
. "$run/data/demo.env"
set +a
start agent "$bin/svc-agent" run --models deploy/bench/conf/models.json --state "$run/agent"
targets+=", {\"name\": \"product\", \"base\": \"$SVC_BASE_URL/v1\", \"key\": \"$SVC_API_KEY\", \"ports\": [9180]}"

sed -e "s#\"reference\": \"nginx\"#\"reference\": \"$reference\"#" \
  -e "s#\"rounds\": 3#\"rounds\": ${BENCH_ROUNDS:-3}#" \
  -e '/^  {"name": .*"base"/d' \
  -e "s#^ \"targets\": \\[#&$(printf '%s' "$targets" | sed 's/[&#\\]/\\&/g')#" \
  deploy/bench/conf/compare.example.json >"$run/compare.json"
chmod 600 "$run/compare.json"

for _ in $(seq 100); do
  grep -q '"mock-t16"' <(exec 3<>/dev/tcp/127.0.0.1/9180; printf 'GET /v1/models HTTP/1.0\r\nHost: x\r\n\r\n' >&3; cat <&3) && break
  sleep 0.2
done
only=${BENCH_ONLY:-chat-1,chat-16,body32k-16,relay-64,live20-64,live20-512}
"$bin/compare" -config "$run/compare.json" -only "$only" -out "$run/results.jsonl"
