#!/usr/bin/env bash
# Prints the folder with the programs of a pinned tool: buf, generators (of code
# from the contracts), golangci-lint, helm, kubectl-validate (what checks Kubernetes objects
# by schemas of its own), kube-apiserver (beside it is etcd, whose module calls the program
# server), benchstat (what compares runs of go test -bench), anvil (a development chain), solidity (the
# compiler and the library of the contracts on chains, in node_modules) or statement (what
# checks a provider's daily statement). Installs the
# tool first if it is missing. The folder is in ${XDG_CACHE_HOME:-~/.cache}/svc-tools, so all clones share it;
# its name has a hash of what pins the tool and of Go's version.
set -euo pipefail
cd "$(dirname "$0")/../.."

tool=${1:-}
npm='' module='' # where package-lock.json is, and where go.mod is
case $tool in
  buf) npm=deploy/dev/tools/npm module=deploy/dev/tools/buf ;;
  generators) module=proto ;;
  golangci-lint | helm | kubectl-validate | kube-apiserver | benchstat) module=deploy/dev/tools/$tool ;;
  anvil) npm=deploy/dev/tools/anvil ;;
  solidity) npm=services/settlement/contracts ;;
  statement) npm=services/settlement/statement ;;
  *)
    echo "usage: tool.sh buf|generators|golangci-lint|helm|kubectl-validate|kube-apiserver|benchstat|anvil|solidity|statement" >&2
    exit 2
    ;;
esac
pins=()
[ -z "$npm" ] || pins+=("$npm/package-lock.json")
[ "$tool" != statement ] || pins+=("$npm/verify.mjs")
[ -z "$module" ] || pins+=("$module/go.mod" "$module/go.sum")
tools=${XDG_CACHE_HOME:-$HOME/.cache}/svc-tools
key=$({ go env GOVERSION GOOS GOARCH && cat "${pins[@]}"; } | git hash-object --stdin | cut -c 1-12)
folder=$tools/$tool-$key

# install_to makes a folder with the tool's programs. npm's build of buf is there
# in seconds; without npm buf is built from source. Both are pinned by hash:
# deploy/README.md. anvil, solidity and statement come from npm alone.
install_to() {
  mkdir -p "$1"
  if [ -n "$npm" ] && { [ -z "$module" ] || command -v npm >/dev/null; }; then
    cp "$npm/package.json" "$npm/package-lock.json" "$1"
    npm ci --ignore-scripts --silent --no-fund --no-audit --prefix "$1"
    case $tool in
      buf) ln -s node_modules/.bin/buf "$1/buf" ;;
      # node looks for libraries beside the script.
      statement) cp "$npm/verify.mjs" "$1" ;;
      # The package of this platform has the program; @foundry-rs/anvil would start it by node.
      anvil) (cd "$1" && ln -s node_modules/@foundry-rs/anvil-*/bin/anvil anvil) ;;
    esac
  else
    local flags=''
    if [ "$tool" = kube-apiserver ]; then
      # Without these flags the API server says that it is v0.0.0, and helm refuses each chart with a least version.
      local version at=k8s.io/component-base/version
      version=$(GOWORK=off go -C "$module" list -m -f '{{.Version}}' k8s.io/kubernetes)
      flags="-s -w -X $at.gitVersion=$version -X $at.gitMajor=1 -X $at.gitMinor=$(cut -d. -f2 <<<"$version")"
    fi
    GOBIN=$1 GOWORK=off go -C "$module" install -ldflags "$flags" tool
  fi
}

if [ ! -d "$folder" ]; then
  echo "  Installing $tool (once) ..." >&2
  mkdir -p "$tools"
  into=$(mktemp -d "$tools/.$tool.XXXXXX")
  trap 'rm -rf "$into"' EXIT
  install_to "$into/${folder##*/}" >&2
  # mv replaces no folder that has files. Another clone that was faster has put the
  # same programs there.
  mv "$into/${folder##*/}" "$tools/" 2>/dev/null || [ -d "$folder" ]
fi
echo "$folder"
