# Processes that a script starts and ends, each by its number. Sourced by the
# scripts beside it, which set $run, the folder of the logs, and have their own
# standard output as 3. The processes end when the script does.

pids=() names=()
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
