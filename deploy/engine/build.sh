#!/usr/bin/env bash
# Builds Ollama from its Go module into ${XDG_CACHE_HOME:-~/.cache}/svc-tools and
# prints nothing but progress. Does nothing when that program is there; `--path`
# only says where it is or would be. Its name has a hash of this file, of what pins
# the module, of the stub and of the compilers' versions.
#
# The module archive lacks three header-only libraries: two come from the
# system's packages, the third is the stub in include/. The build asks for no
# more than the machine's baseline instructions (no -march=native), so that a
# cache may carry the program to another kind of CPU; the generated models are
# small enough for it.
set -euo pipefail
version=v0.17.4
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
module=$root/deploy/dev/tools/ollama
tools=${XDG_CACHE_HOME:-$HOME/.cache}/svc-tools

say() { echo "  $*" >&2; }
fail() {
  echo "engine: $*" >&2
  exit 1
}

command -v go >/dev/null || fail "go is missing."
compilers() { command -v "${CC:-cc}" >/dev/null && command -v "${CXX:-c++}" >/dev/null; }
path() {
  local key
  key=$({
    go env GOVERSION GOOS GOARCH
    cat "$here/build.sh" "$here/include/miniaudio/miniaudio.h" "$module/go.mod" "$module/go.sum"
    ! compilers || { "${CC:-cc}" --version && "${CXX:-c++}" --version; }
  } | git hash-object --stdin | cut -c 1-12)
  echo "$tools/ollama-$version-$key"
}

program=$(path)
if [ "${1:-}" = --path ]; then
  echo "$program"
  exit 0
fi
[ ! -x "$program" ] || exit 0

compiles() { echo "#include <$1>" | "${CXX:-c++}" -std=c++17 -fsyntax-only -x c++ - 2>/dev/null; }
headers() { compiles nlohmann/json.hpp && compiles stb/stb_image.h; }
install_debian() {
  command -v apt-get >/dev/null && [ "$(id -u)" = 0 ] || return 1
  local packages=(nlohmann-json3-dev libstb-dev)
  compilers || packages+=(gcc g++ libc6-dev)
  say "Installing ${packages[*]} ..."
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq && apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null
}
{ compilers && headers; } || install_debian || true
compilers || fail "a C or C++ compiler is missing: apt-get install build-essential, or set CC and CXX."
headers || fail "the headers nlohmann/json.hpp and stb/stb_image.h are missing:
  Debian, Ubuntu: sudo apt-get install nlohmann-json3-dev libstb-dev
  elsewhere: install nlohmann-json and stb, and name their folder in CPATH."

say "Building Ollama $version (once; 5 to 10 minutes on two cores) ..."
program=$(path) # the compilers may have come just now
mkdir -p "$tools"
into=$(mktemp -d "$tools/.ollama.XXXXXX")
trap 'rm -rf "$into"' EXIT
began=$SECONDS
CGO_ENABLED=1 CGO_CPPFLAGS="-I$here/include" CGO_CFLAGS=-O3 CGO_CXXFLAGS=-O3 \
  GOBIN=$into GOWORK=off nice go -C "$module" install -trimpath -ldflags='-s -w' tool
mv -f "$into/ollama" "$program"
say "Built $program in $((SECONDS - began)) s."
