#!/usr/bin/env bash
# Runs the tests of the packages that decide verdicts, with the committed evidence, on
# other processors, and prints a table of what they computed: 386, whose programs run on
# amd64 as they are, and arm64 under qemu's user mode. An architecture that this machine
# cannot run is said and left out; with CI=true that fails.
#
# "fused" counts the instructions of these packages that multiply and add with one
# rounding (package exact says why there must be none). arm64 has such instructions.
set -euo pipefail
cd "$(dirname "$0")/../.."
internal=services/verifier/internal
packages=(exact evidence statistic calibration window standing judge replay)
# Packages without tests of their own here, whose arithmetic verdicts use too.
also=(battery ladder probe quant trust archive)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
host=$(go env GOHOSTARCH)

# install gets qemu where that is one command.
install() {
  command -v apt-get >/dev/null && [ "$(id -u)" = 0 ] || return 1
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq && apt-get install -y -qq --no-install-recommends qemu-user >/dev/null 2>&1
}

# runner says what runs programs of an architecture: "-" for the machine itself.
runner() {
  case $host/$1 in
    "$1/$1" | amd64/386) echo - ;;
    */386) command -v qemu-i386 ;;
    */arm64) command -v qemu-aarch64 ;;
    *) return 1 ;;
  esac
}

count() { grep -c "$1" "$2" || true; }

# fused counts fused products in a program.
fused() {
  local joined
  joined=$(IFS='|' && echo "${packages[*]}|${also[*]}")
  go tool objdump -s "^svc.internal/$internal/($joined)[./]" "$1" >"$work/listing"
  [ -s "$work/listing" ] || { echo "the listing of $1 is empty" >&2 && return 1; }
  grep -cE 'FN?M(ADD|SUB)[DS]' "$work/listing" || true
}

# try runs everything on one architecture and prints its row.
try() {
  local arch=$1 with=$2 out=$work/$1 exec=() ended=ok sums products
  [ "$with" = - ] || exec=(-exec "$with")
  export GOARCH=$arch CGO_ENABLED=0
  go test -json -short -count=1 -vet=off -timeout 30m "${exec[@]}" "${packages[@]/#/./$internal/}" \
    "./$internal/evidence/..." >"$out" || ended=FAILED failed=1
  go test -c -vet=off -o "$work/program" "./$internal/replay"
  products=$(fused "$work/program")
  [ "$products" = 0 ] || ended=FAILED failed=1
  sums=$(sed -n 's/.*replayed: \([0-9]*\) pieces, \([0-9]*\) verdicts, \([0-9]*\) differ.*/\1 \2 \3/p' "$out" |
    awk '{p += $1; v += $2; d += $3} END {print p + 0, v + 0, d + 0}')
  # Nothing replayed is no success.
  [ "${sums%% *}" != 0 ] || ended=FAILED failed=1
  # shellcheck disable=SC2086 # three numbers
  printf '%-6s %-14s %6d %7d %7d %9d %7d %6d  %s\n' "$arch" "$(basename "${with/#-/natively}")" \
    "$(count '"Action":"pass".*"Test":' "$out")" "$(count '"Action":"fail".*"Test":' "$out")" $sums "$products" "$ended"
  [ "$ended" = ok ] || sed -n 's/.*"Action":"output".*"Test":"\([^"]*\)".*"Output":"\(.*\)\\n"}/\1: \2/p' "$out" |
    grep -v -E '=== |--- PASS|--- SKIP' | head -n 40 >&2
}

runner arm64 >/dev/null || install || true
printf '%-6s %-14s %6s %7s %7s %9s %7s %6s  %s\n' arch run tests failed pieces verdicts differ fused result
for arch in 386 arm64; do
  if with=$(runner "$arch"); then
    (try "$arch" "$with" && exit "$failed") || failed=1
  else
    echo "$arch is left out: nothing here runs its programs (Debian, Ubuntu: apt-get install qemu-user)"
    [ "${CI:-}" != true ] || failed=1
  fi
done
exit "$failed"
