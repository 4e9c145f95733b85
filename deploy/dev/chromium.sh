#!/usr/bin/env bash
# Makes sure that Chromium is there, which the tests of the console's pages drive.
set -euo pipefail

found() { command -v chromium >/dev/null; }

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

found && exit 0
if command -v apt-get >/dev/null; then
  echo "  Installing Chromium with apt ..."
  export DEBIAN_FRONTEND=noninteractive
  as_root apt-get update -qq && as_root apt-get install -y -qq --no-install-recommends chromium >/dev/null || true
fi
found && exit 0
echo "Install Chromium, which the tests of the console's pages drive: apt-get install chromium." >&2
exit 1
