#!/usr/bin/env bash
# Prints the folder with Debian's prometheus and promtool. Those of the machine are used where
# it has them; else the package is fetched with apt, checked by apt, and unpacked into
# ${XDG_CACHE_HOME:-~/.cache}/svc-tools. Nothing is installed, so no server starts with the
# machine.
set -euo pipefail

if [ -n "${PROMETHEUS_BIN:-}" ]; then
  echo "$PROMETHEUS_BIN"
  exit
fi
if command -v promtool >/dev/null && command -v prometheus >/dev/null; then
  dirname "$(command -v promtool)"
  exit
fi
tools=${XDG_CACHE_HOME:-$HOME/.cache}/svc-tools
if [ ! -x "$tools/prometheus/usr/bin/promtool" ]; then
  command -v apt-get >/dev/null || {
    echo "prometheus and promtool are not there: install Prometheus, or set PROMETHEUS_BIN to their folder" >&2
    exit 1
  }
  echo "  Fetching Prometheus with apt (once) ..." >&2
  mkdir -p "$tools"
  into=$(mktemp -d "$tools/.prometheus.XXXXXX")
  trap 'rm -rf "$into"' EXIT
  # As root apt would fetch as another user, who cannot write here.
  (cd "$into" && apt-get -o APT::Sandbox::User=root download -qq prometheus >&2)
  dpkg-deb -x "$into"/prometheus_*.deb "$into/prometheus"
  mv "$into/prometheus" "$tools/" 2>/dev/null || [ -x "$tools/prometheus/usr/bin/promtool" ]
fi
echo "$tools/prometheus/usr/bin"
