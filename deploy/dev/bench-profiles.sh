#!/usr/bin/env bash
# Saves profiles of the product in one process under load in .run/bench/profiles,
# and prints the top of each: what it spends CPU on (cpu), where goroutines wait for
# locks (mutex) or for anything (block), and what it allocates (allocs, by objects).
# Waiting is sampled only while its profile is taken. It takes about three minutes.
#
#   BENCH_ONLY=LIST     loads: chat-16,live20-64
#   BENCH_KINDS=LIST    kinds: cpu,mutex,block,allocs
#   BENCH_TARGETS=NAME  standalone, or another target that has profiles
set -euo pipefail
cd "$(dirname "$0")/../.."
loads=${BENCH_ONLY:-chat-16,live20-64}
kinds=${BENCH_KINDS:-cpu,mutex,block,allocs}
profiles=.run/bench/profiles
rm -rf "$profiles"
mkdir -p .run

BENCH_TARGETS=${BENCH_TARGETS:-standalone} BENCH_ROUNDS=1 BENCH_ONLY=$loads BENCH_PROFILE=$loads BENCH_KINDS=$kinds \
  BENCH_README=0 deploy/dev/bench.sh --json >.run/profiles.json

for kind in ${kinds//,/ }; do
  sample=()
  [ "$kind" != allocs ] || sample=(-sample_index=alloc_objects)
  for file in "$profiles"/*."$kind.pprof"; do
    printf '\n%s\n' "$file"
    go tool pprof -top -nodecount=15 "${sample[@]}" "$file" 2>/dev/null | grep -v '^\(File\|Time\|Build ID\):'
  done
done
