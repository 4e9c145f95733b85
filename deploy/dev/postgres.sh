#!/usr/bin/env bash
# Makes sure that PostgreSQL can be started: does nothing when DATABASE_URL is
# set or server programs are found; else installs Debian's package (as root, or
# with a sudo that does not ask), else downloads a build into .cache/postgres.
set -euo pipefail
cd "$(dirname "$0")/../.."

found() {
  [ -n "${DATABASE_URL:-}" ] && return 0
  [ -n "${PGBIN:-}" ] && [ -x "$PGBIN/initdb" ] && return 0
  command -v initdb >/dev/null && return 0
  compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null && return 0
  compgen -G '/opt/homebrew/opt/postgresql*/bin/initdb' >/dev/null && return 0
  compgen -G '/usr/local/opt/postgresql*/bin/initdb' >/dev/null && return 0
  [ -x .cache/postgres/bin/initdb ]
}

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

install_debian() {
  command -v apt-get >/dev/null || return 1
  [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null || return 1
  echo "  Installing PostgreSQL with apt ..."
  export DEBIAN_FRONTEND=noninteractive
  as_root apt-get update -qq &&
    as_root apt-get install -y -qq --no-install-recommends postgresql-common >/dev/null &&
    # Only the programs are wanted, not a server that starts with the machine.
    as_root sed -i 's/^#\?create_main_cluster.*/create_main_cluster = false/' /etc/postgresql-common/createcluster.conf &&
    as_root apt-get install -y -qq --no-install-recommends postgresql >/dev/null
}

found && exit 0
install_debian || true
found && exit 0
echo "  Downloading PostgreSQL into .cache/postgres ..."
(cd deploy/dev/postgres && GOWORK=off go run . -to ../../../.cache/postgres) || true
found && exit 0
echo "No PostgreSQL server programs were found, and they could not be installed." >&2
echo "Set DATABASE_URL to a server, or install them: apt-get install postgresql, brew install postgresql." >&2
exit 1
