# Sourced by make: points PGBIN at a downloaded PostgreSQL where no other is.
if [ -z "${PGBIN:-}" ] && [ -x "$PWD/.cache/postgres/bin/initdb" ]; then
  export PGBIN="$PWD/.cache/postgres/bin"
fi
