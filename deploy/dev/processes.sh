# Processes that a script starts and ends, each by its number. Sourced by the
# scripts beside it, which set $run, the folder of the logs, and have their own
# standard output as 3. The processes end when the script does.

pids=()
end() {
  kill "$1" 2>/dev/null || true
  wait "$1" 2>/dev/null || true
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
  pids+=($!)
}
# in_use PORT: whether somebody listens on it.
in_use() { (exec 4<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }
