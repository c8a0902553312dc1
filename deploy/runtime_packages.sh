#!/usr/bin/env bash
# Lists the system packages of the shared libraries that the programs need at run time, for nodes of the same
# distribution. Names CUDA's libraries on standard error if they belong to no package.
# usage: deploy/runtime_packages.sh PROGRAM...
# (./dev build first; then: apt-get install $(deploy/runtime_packages.sh build/bin/autocfg*))
set -euo pipefail

[[ $# -gt 0 ]] || { echo "usage: deploy/runtime_packages.sh PROGRAM..." >&2; exit 2; }
command -v dpkg-query >/dev/null || { echo "autocfg: runtime_packages.sh: this system has no dpkg; see: ldd $*" >&2; exit 2; }

for program in "$@"; do
  [[ -f $program ]] || { echo "autocfg: runtime_packages.sh: $program does not exist; run ./dev build" >&2; exit 2; }
done
libraries=$(ldd "$@" | awk '$2 == "=>" && $3 ~ /^\// {print $3} $2 == "=>" && $3 == "not" {print "missing " $1}' | sort -u)
if missing=$(grep '^missing ' <<<"$libraries"); then
  echo "autocfg: runtime_packages.sh: these libraries are not on this machine: $(awk '{print $2}' <<<"$missing" | tr '\n' ' ')" >&2
  exit 1
fi
for library in $libraries; do
  # If /lib is a link to /usr/lib, a package may list either path.
  found=
  for path in "$library" "$(readlink -f "$library")" "${library#/usr}" "/usr$library"; do
    if package=$(dpkg-query -S "$path" 2>/dev/null); then
      found=1
      echo "${package%%:*}"
      break
    fi
  done
  [[ -n $found ]] || echo "autocfg: $library belongs to no package; copy it to the node too" >&2
done | sort -u
