# Processes that a script starts and ends, each by its number. Sourced by the
# scripts beside it, which set $run, the folder of the logs, and call read_json
# first. The processes end when the script does.

usage='[--json]'
fail_usage() {
  echo "usage: $0 $usage" >&2
  exit 2
}
# read_json ARGUMENT...: file 3 becomes where figures are printed. With --json, $json is
# the flag for programs, and all but the figures goes to standard error.
read_json() {
  exec 3>&1
  json=
  case $*,$# in
  ,0) ;;
  --json,1)
    json=-json
    exec 1>&2
    ;;
  *) fail_usage ;;
  esac
}
# make_run FOLDER...: makes $run and these folders, for the owner alone.
make_run() {
  umask 077
  mkdir -p "$run" "$@"
  chmod 711 "$root/.run" "$run" # PostgreSQL may run as another user
}
# need_free PORT...: ends the script unless nobody listens on them.
need_free() {
  local port
  for port in "$@"; do
    in_use "$port" || continue
    echo "port $port is in use: a benchmark, or what one left behind" >&2
    exit 1
  done
}

pids=() names=()
end() {
  kill "$1" 2>/dev/null || true
  wait "$1" 2>/dev/null || true
}
# end_last ends what was started last.
end_last() {
  local last=$((${#pids[@]} - 1))
  end "${pids[last]}"
  unset 'pids[last]' 'names[last]'
}
# stop ends them in the opposite order of their start.
stop() {
  trap - EXIT
  local i
  for ((i = ${#pids[@]} - 1; i >= 0; i--)); do end "${pids[i]}"; done
}
trap stop EXIT
trap 'exit 130' INT TERM
# start NAME COMMAND...: what it prints goes to NAME.log.
start() {
  local name=$1
  shift
  "$@" >>"$run/$name.log" 2>&1 3>&- &
  pids+=($!) names+=("$name")
}
# alive: whether what was started last still runs. When it does not, the end of
# its log is shown, once and at once: nobody waits for a program that has ended.
alive() {
  kill -0 "${pids[-1]}" 2>/dev/null && return 0
  echo "${names[-1]} has ended; its log ends:" >&2
  tail -n 20 "$run/${names[-1]}.log" >&2
  return 1
}
# in_use PORT: whether somebody listens on it.
in_use() { (exec 4<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }
# empty removes a product's data, its database included, which may live
# elsewhere behind a link.
empty() {
  if [ -L "$1/postgres" ]; then rm -rf -- "$(readlink "$1/postgres")"; fi
  rm -rf -- "$1"
}
# with_env becomes a program that has the variables of a file; what it is
# called in must be a process of its own.
with_env() {
  set -a
  . "$1"
  set +a
  shift
  exec "$@"
}
# wait_file FILE SECONDS
wait_file() {
  for _ in $(seq $(($2 * 20))); do
    [ -s "$1" ] && return
    alive || break
    sleep 0.05
  done
  echo "$1 did not come; see $run" >&2
  exit 1
}
