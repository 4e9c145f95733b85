#!/bin/sh
# Installs svc-agent for this user: it finds the archive for this machine, verifies its
# checksum by the SHA256SUMS beside it, and copies the program to a folder. It needs no rights
# of root, changes nothing else, and says what it does.
#
#   install.sh [--dry-run] [--from FOLDER-OR-URL] [--to FOLDER] [--key KEY]
#
# --from is where the archives are (default: the folder of this script), and --to where the
# program goes (default: ~/.local/bin). --key is the public key of the releases, as a line
# that begins with ssh-, ecdsa- or sk-, or a file with that line; with it nothing is installed
# unless SHA256SUMS is signed by that key. --dry-run says what would be done.
set -eu

say() { printf '%s\n' "$*"; }
fail() {
  say "install.sh: $*; nothing was installed" >&2
  exit 1
}

dry='' key='' from=$(dirname "$0") to=${HOME:?}/.local/bin
while [ $# -gt 0 ]; do
  case $1 in
    --dry-run) dry=1 ;;
    --from | --to | --key)
      [ $# -ge 2 ] && [ -n "$2" ] || { say "install.sh: $1 needs a value" >&2; exit 2; }
      case $1 in --from) from=$2 ;; --to) to=$2 ;; --key) key=$2 ;; esac
      shift
      ;;
    *) sed -n '2,11s/^# \{0,1\}//p' "$0"; exit 2 ;;
  esac
  shift
done

case $to in /*) ;; *) to=$PWD/$to ;; esac
system=$(uname -s | tr '[:upper:]' '[:lower:]')
case $(uname -m) in
  x86_64 | amd64) machine=amd64 ;;
  aarch64 | arm64) machine=arm64 ;;
  *) fail "there is no archive for $(uname -m)" ;;
esac
case $system in
  linux | darwin) ;;
  *) fail "there is no archive for $system" ;;
esac
archive=svc-agent-$system-$machine.tar.gz
is_key() { case $1 in ssh-*' '* | ecdsa-*' '* | sk-*' '*) ;; *) return 1 ;; esac; }
if [ -n "$key" ] && ! is_key "$key"; then # a line is no file, whatever files are here
  [ ! -f "$key" ] || key=$(head -n 1 <"$key")
  is_key "$key" || fail "--key is neither a key that begins with ssh-, ecdsa- or sk-, nor a file with one"
fi

say "archive:   $from/$archive"
say "checksum:  by the SHA256SUMS beside it"
if [ -n "$key" ]; then
  say "signature: of SHA256SUMS, by the key that was given"
else
  say "signature: not verified, because --key gives no key"
fi
say "program:   $to/svc-agent"
if [ -n "$dry" ]; then
  say "Nothing was changed (--dry-run)."
  exit 0
fi

work=$(mktemp -d) new=''
trap 'rm -rf "$work" ${new:+"$new"}' EXIT
trap 'exit 1' HUP INT TERM
get() {
  case $from in
    https://*) curl -fsSL --proto '=https' -o "$work/$1" "$from/$1" ;;
    http://*) fail "$from is not https://; give an address that is, or a folder" ;;
    *) cp "$from/$1" "$work/$1" ;;
  esac
}

get SHA256SUMS || fail "SHA256SUMS cannot be read"
if [ -n "$key" ]; then
  command -v ssh-keygen >/dev/null || fail "ssh-keygen is missing, which verifies signatures"
  get SHA256SUMS.sig 2>/dev/null || fail "this release is not signed: there is no SHA256SUMS.sig"
  say "$key" | awk '{ print "release namespaces=\"svc-agent\" " $1 " " $2; exit }' >"$work/signers"
  ssh-keygen -Y verify -f "$work/signers" -I release -n svc-agent -s "$work/SHA256SUMS.sig" \
    <"$work/SHA256SUMS" >/dev/null 2>&1 || fail "SHA256SUMS is not signed by the key that was given"
fi
get "$archive" || fail "$archive cannot be read"

cd "$work"
awk -v name="$archive" '$2 == name' SHA256SUMS >wanted
[ -s wanted ] || fail "SHA256SUMS does not list $archive"
if command -v sha256sum >/dev/null; then sha256sum -c wanted >/dev/null; else shasum -a 256 -c wanted >/dev/null; fi ||
  fail "the checksum of $archive is not that of SHA256SUMS"
tar -xzf "$archive" "${archive%.tar.gz}/svc-agent"
mkdir -p "$to"
# The folder has a name that nobody can foretell, and nobody else may write into it, so the program
# that is started and put in place is the one that was verified.
new=$(mktemp -d "$to/.svc-agent.XXXXXX") || fail "$to cannot be written"
cp "${archive%.tar.gz}/svc-agent" "$new/svc-agent"
chmod 755 "$new/svc-agent"
version=$("$new/svc-agent" version) || fail "the program does not start"
mv -f "$new/svc-agent" "$to/svc-agent" # a running agent keeps the old program
say "installed: $version"
case :${PATH:-}: in
  *:"$to":*) say "next: svc-agent setup" ;;
  *)
    say "Add $to to your PATH."
    say "next: $to/svc-agent setup"
    ;;
esac
