#!/usr/bin/env bash
# Runs every fuzz target of the workspace whose name matches the regular
# expression $1, for FUZZTIME each, and prints a table of what became of them.
# An input that fails a target is kept by Go in testdata/fuzz/<target> beside the
# test; commit it with the fix. Inputs that only reach new code stay in Go's
# cache, so that the next run goes on from there.
set -euo pipefail
cd "$(dirname "$0")/../.."
want=${1:-.}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
failed=0

# fuzz runs one target.
fuzz() {
  (cd "$module" && GOWORK=$work go test -run '^$' -fuzz "^$target\$" -fuzztime "${FUZZTIME:-1m}" "$package") >"$log" 2>&1
}
# cut_short: whether Go took the end of the time for a failure, as it now and then
# does before 1.27 (go.dev/issue/75804). No input has failed then.
cut_short() { grep -q '^ *context deadline exceeded$' "$log" && ! grep -qE 'Failing input|panic' "$log"; }

printf '%-50s %-42s %10s %8s  %s\n' package target inputs new result
# Only packages whose tests name a target are built; Go lists what is in them.
while read -r dir; do
  module=$dir
  while [ ! -f "$module/go.mod" ]; do module=$(dirname "$module"); done
  # A module apart from the workspace is built by itself.
  work=$PWD/go.work
  grep -q "^[[:space:]]*\./$module\$" go.work || work=off
  package=./${dir#"$module"}
  package=${package/.\/\//./}
  for target in $(cd "$module" && GOWORK=$work go test -list '^Fuzz' "$package" | grep '^Fuzz' || true); do
    [[ $target =~ $want ]] || continue
    if fuzz || cut_short; then
      result=ok
    else
      result=FAILED failed=1
    fi
    last=$(grep '^fuzz: elapsed' "$log" | tail -1 || true)
    inputs=$(sed -nE 's/.*execs: ([0-9]+).*/\1/p' <<<"$last")
    new=$(sed -nE 's/.*new interesting: ([0-9]+).*/\1/p' <<<"$last")
    printf '%-50s %-42s %10s %8s  %s\n' "$dir" "$target" "${inputs:--}" "${new:--}" "$result"
    [ $result = ok ] || sed 's/^/    /' "$log" | tail -40
  done
done < <(grep -rlE '^func Fuzz[A-Z_]' --include='*_test.go' pkg services deploy | xargs -n1 dirname | sort -u)
exit $failed
