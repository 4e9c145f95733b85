#!/usr/bin/env bash
# Builds the images again from a copy of the tree in another folder, with nothing from
# Go's cache of builds, and fails unless each has the digest that the first build gave.
#
#   again.sh IMAGES [PLATFORMS]
#
# IMAGES is the folder of the first build, and PLATFORMS are its platforms.
set -euo pipefail
images=$(realpath "$1") platforms=${2:-}
cd "$(dirname "$0")/../.."

# The copy is no clone, so it is told the commit that the tree has.
export SOURCE_REVISION SOURCE_DATE_EPOCH
SOURCE_REVISION=$(git rev-parse HEAD)
[ -z "$(git status --porcelain)" ] || SOURCE_REVISION+=-dirty
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
mkdir "$copy/tree"
git ls-files -z --cached --others --exclude-standard |
  while IFS= read -r -d '' name; do
    [ ! -e "$name" ] || printf '%s\0' "$name" # a file that was removed and not committed
  done | tar -cf - --null -T - | tar -xf - -C "$copy/tree"

cd "$copy/tree/deploy/images"
GOCACHE=$copy/cache GOWORK=off go run . -tree "$copy/tree" -out "$copy/images" \
  ${platforms:+-platforms "$platforms"} >/dev/null
if ! diff "$images/digests.json" "$copy/images/digests.json"; then
  echo "  two builds of the same commit differ" >&2
  exit 1
fi
echo "  $(grep -c sha256: "$images/digests.json") images have the same digests when they are built elsewhere."
