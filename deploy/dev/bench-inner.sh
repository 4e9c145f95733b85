#!/usr/bin/env bash
# Compares Go benchmarks of the parts that a request passes through at a commit
# with those of the work tree, and prints benchstat's table. Test binaries of both
# are built first, and then take turns, so that what else the machine does slows
# both down. Nothing fails on time. It takes about eight minutes.
#
#   deploy/dev/bench-inner.sh COMMIT
#   BENCH_COUNT=6        runs of each benchmark at each commit; fewer give no interval
#   BENCH_PACKAGES=TEXT  these packages alone: those whose folder holds TEXT
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD
run=$root/.run/inner
if [ $# -ne 1 ]; then
  echo "usage: $0 COMMIT" >&2
  exit 2
fi
commit=$(git rev-parse --verify --quiet "$1^{commit}") || { echo "$1 is no commit of this repository" >&2; exit 2; }
count=${BENCH_COUNT:-6}

# Folder, benchmarks, time of each. A package whose benchmarks are yet to be
# written is passed over.
parts="
pkg/agentwire                                 .                                                                  0.2s
pkg/jsonscan                                  Members                                                            0.2s
pkg/openai                                    EstimateTokens|ScanChunkAndRewrite|SSEReader                       0.2s
pkg/serve                                     UnaryInProcess|StreamInProcess                                     0.2s
services/edge-gateway                         Request|RelayPerEvent                                              0.3s
services/edge-gateway/internal/openaiapi      ParseAndPatch/32KB$|EveryKind                                      0.2s
services/provider-hub                         Relay                                                              0.3s
services/provider-hub/internal/journal        Final/writers=512|Dispatch                                         0.3s
services/provider-hub/internal/session        Chunk                                                              0.2s
services/provider-hub/internal/wsconn         .                                                                  0.2s
services/router/internal/pick                 Select$                                                            0.2s
services/billing-ledger/internal/store        Admissions/./accounts=32/callers=64$|Settles/./accounts=32         4000x
"
parts=$(grep . <<<"$parts" | { grep -e "${BENCH_PACKAGES:-.}" || true; })
[ -n "$parts" ] || { echo "no folder of the list holds $BENCH_PACKAGES" >&2; exit 2; }

umask 077
rm -rf "$run"
mkdir -p "$run/source" "$run/base" "$run/head"
chmod 711 "$root/.run" "$run" # PostgreSQL may run as another user
trap 'rm -rf "$run/source"' EXIT
git archive "$commit" | tar -x -C "$run/source"

# tree SIDE: where its sources are.
tree() { if [ "$1" = base ]; then echo "$run/source"; else echo "$root"; fi; }
# binary SIDE FOLDER: its test binary.
binary() { echo "$run/$1/${2//\//-}.test"; }
echo "  Building the benchmarks at ${commit:0:9} and of the work tree ..." >&2
while read -r folder _; do
  for side in base head; do
    if [ -d "$(tree $side)/$folder" ]; then
      (cd "$(tree $side)/$folder" && go test -c -vet=off -o "$(binary $side "$folder")" .)
    fi
  done
done <<<"$parts"

# measure SIDE FOLDER PATTERN TIME: one run of a package, appended to its side's text.
measure() {
  [ -x "$(binary "$1" "$2")" ] || return 0 # the package came later, is gone, or has no tests
  (cd "$(tree "$1")/$2" && "$(binary "$1" "$2")" -test.run '^$' -test.bench "$3" -test.benchtime "$4" -test.benchmem \
    -test.timeout 10m </dev/null) >"$run/out.txt" 2>&1 || { echo "$2 failed at $1:" >&2; tail -n 5 "$run/out.txt" >&2; return 0; }
  cat "$run/out.txt" >>"$run/$1.txt"
}
touch "$run/base.txt" "$run/head.txt"
for ((i = 1; i <= count; i++)); do
  echo "  Round $i of $count ..." >&2
  sides="base head"
  [ $((i % 2)) = 1 ] || sides="head base"
  while read -r folder pattern time; do
    for side in $sides; do measure "$side" "$folder" "$pattern" "$time"; done
  done <<<"$parts"
done
"$(deploy/dev/tool.sh benchstat)/benchstat" "${commit:0:9}=$run/base.txt" "worktree=$run/head.txt"
