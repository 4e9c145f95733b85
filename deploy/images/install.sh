#!/bin/sh
# Installs svc-agent for this user: it finds the archive for this machine, verifies its
# checksum by the SHA256SUMS beside it, and copies the program to a folder. It needs no rights
# of root and changes nothing else.
#
#   install.sh [--dry-run] [--from FOLDER-OR-URL] [--to FOLDER]
#
# --from is where the archives are (default: the folder of this script), and --to where the
# program goes (default: ~/.local/bin). --dry-run says what would be done.
set -eu

dry='' from=$(dirname "$0") to=${HOME:?}/.local/bin
while [ $# -gt 0 ]; do
  case $1 in
    --dry-run) dry=1 ;;
    --from | --to)
      [ $# -ge 2 ] || { echo "install.sh: $1 needs a value" >&2; exit 2; }
      if [ "$1" = --from ]; then from=$2; else to=$2; fi
      shift
      ;;
    *) sed -n '2,10s/^# \{0,1\}//p' "$0"; exit 2 ;;
  esac
  shift
done

case $to in /*) ;; *) to=$PWD/$to ;; esac
system=$(uname -s | tr '[:upper:]' '[:lower:]')
case $(uname -m) in
  x86_64 | amd64) machine=amd64 ;;
  aarch64 | arm64) machine=arm64 ;;
  *) echo "install.sh: there is no archive for $(uname -m)" >&2; exit 1 ;;
esac
case $system in
  linux | darwin) ;;
  *) echo "install.sh: there is no archive for $system" >&2; exit 1 ;;
esac
archive=svc-agent-$system-$machine.tar.gz

echo "archive:  $from/$archive"
echo "checksum: by the SHA256SUMS beside it"
echo "program:  $to/svc-agent"
if [ -n "$dry" ]; then
  echo "Nothing was changed (--dry-run)."
  exit 0
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for name in "$archive" SHA256SUMS; do
  case $from in
    https://*) curl -fsSL --proto '=https' -o "$work/$name" "$from/$name" ;;
    http://*) echo "install.sh: $from is not https://; give an address that is, or a folder" >&2; exit 1 ;;
    *) cp "$from/$name" "$work/$name" ;;
  esac
done

cd "$work"
awk -v name="$archive" '$2 == name' SHA256SUMS >wanted
[ -s wanted ] || { echo "install.sh: SHA256SUMS does not list $archive" >&2; exit 1; }
if command -v sha256sum >/dev/null; then sha256sum -c wanted >/dev/null; else shasum -a 256 -c wanted >/dev/null; fi ||
  { echo "install.sh: the checksum of $archive is not that of SHA256SUMS; nothing was installed" >&2; exit 1; }
tar -xzf "$archive"
mkdir -p "$to"
cp "${archive%.tar.gz}/svc-agent" "$to/.svc-agent.new"
chmod 755 "$to/.svc-agent.new"
mv "$to/.svc-agent.new" "$to/svc-agent" # a running agent keeps the old program
echo "installed: $("$to/svc-agent" version)"
case :${PATH:-}: in
  *:"$to":*) ;;
  *) echo "Add $to to your PATH." ;;
esac
echo "next: svc-agent setup"
