#!/usr/bin/env bash
# Builds targets with ninja and shows on standard error what is built, how far it is and about how long is left.
# Prints nothing if there is little to do. Prints what compilers say, and exits as ninja does.
# Usage: deploy/build.sh BUILD_DIR TARGET...
set -euo pipefail

build_dir=$1
shift

# CPU seconds that a step of ninja costs with an empty compiler cache, on a 2020s server core. They only set the first
# estimate and the proportions: the estimate follows the measured speed as soon as steps finish.
cost_of() {  # of the step described by $1, in $cost
  case "$1" in
    *"Building CUDA object"*) cost=10 ;;
    *"Building CXX object"*/batches/*) cost=9 ;;
    *"Building CXX object"*) cost=3 ;;
    *Linking*) cost=1 ;;
    *) cost=0 ;;
  esac
}

# duration SECONDS: in words.
duration() {
  if (($1 >= 90)); then
    echo "$((($1 + 30) / 60)) minutes"
  else
    echo "$(($1 < 5 ? 5 : ($1 + 4) / 5 * 5)) seconds"
  fi
}

# A batch of sources takes up to 1.7 GB to compile: no more at once than the memory holds.
cores=$(nproc)
jobs=$cores
memory_kb=$(awk '/^MemAvailable:/ { print $2 }' /proc/meminfo)
if ((memory_kb / 1700000 < jobs)); then jobs=$((memory_kb / 1700000)); fi
if ((jobs < 1)); then jobs=1; fi

# Brings the build's own files up to date, so that the dry run lists all steps.
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! ninja -C "$build_dir" build.ninja >"$log" 2>&1; then
  cat "$log" >&2
  exit 1
fi
# A dry run of the build files themselves stops at the step that regenerates them, which always looks outdated:
# the sources are listed by globs. So it reads a copy without that step.
dry=$(mktemp)
trap 'rm -f "$log" "$dry"' EXIT
sed '/^build build\.ninja: RERUN_CMAKE/,/^$/d' "$build_dir/build.ninja" >"$dry" 2>/dev/null || true
# Errors are left to the build itself.
NINJA_STATUS="[%f/%t] " ninja -C "$build_dir" -f "$dry" -n "$@" >"$log" 2>&1 || true

steps=0
total=0
while IFS= read -r line; do
  [[ $line == \[* ]] || continue
  cost_of "$line"
  steps=$((steps + 1))
  total=$((total + cost))
done <"$log"

shown=0
least_s=15  # shorter builds are not announced
if ((total / jobs >= least_s)); then
  shown=1
  echo "autocfg: building $* ($steps steps, $jobs at once): about $(duration $((total / jobs))) if nothing is cached" >&2
fi

terminal=0
if [[ -t 2 ]]; then terminal=1; fi
started=$SECONDS
last=$SECONDS
done_steps=0
done_cost=0
wipe() {
  if ((terminal && shown)); then printf '\r\033[K' >&2; fi
}
progress() {
  # The first estimate counts as much as a tenth of the build.
  local elapsed=$((SECONDS - started)) prior=$((total / 10 + 1)) left=$((total - done_cost)) text
  local left_s=$(((elapsed + prior / jobs) * (left > 0 ? left : 0) / (done_cost + prior)))
  text="autocfg: building: $done_steps of $steps steps, $((total > 0 ? 100 * done_cost / total : 100))%, about $(duration $left_s) left"
  if ((terminal)); then
    wipe
    printf '%s' "$text" >&2
    last=$SECONDS
  elif ((SECONDS - last >= 10)); then
    echo "$text" >&2
    last=$SECONDS
  fi
}

# Checkouts in other directories share what the compiler cache has. With debug information they do so only where it is for the reports
# of sanitizers, which name files relative to the build directory: a debugger needs the directory.
CCACHE_BASEDIR=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export CCACHE_BASEDIR CCACHE_DEPEND=1
case "$build_dir" in
  *-asan-ubsan | *-tsan) export CCACHE_NOHASHDIR=1 ;;
esac

# Ninja marks the lines of steps; the others are the compilers' and its own.
status=1  # unless ninja ends by itself
mark="@step %f/%t "
while true; do
  code=0
  IFS= read -r -t 2 more || code=$?
  line=${line:-}$more
  if ((code > 128)); then  # no whole line yet
    if ((shown)); then progress; fi
    continue
  fi
  if [[ $code -ne 0 && -z $line ]]; then break; fi
  case "$line" in
    "@step "*)
      line=${line#@step }
      done_steps=${line%%/*}
      line=${line#*/}
      steps=${line%% *}
      cost_of "$line"
      done_cost=$((done_cost + cost))
      if ((shown)); then progress; fi
      ;;
    "@status "*) status=${line#@status } ;;
    "ninja: Entering directory"* | "ninja: no work to do."*) ;;
    *)
      wipe
      printf '%s\n' "$line" >&2
      ;;
  esac
  line=
  if ((code != 0)); then break; fi
done < <(
  code=0
  NINJA_STATUS=$mark ninja -C "$build_dir" -j "$jobs" "$@" 2>&1 || code=$?
  echo "@status $code"
)
wipe
if ((shown && status == 0)); then echo "autocfg: built in $(duration $((SECONDS - started)))" >&2; fi
exit "$status"
