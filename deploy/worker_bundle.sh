#!/usr/bin/env bash
# Packs a folder that runs autocfg-worker on a node without packages: the worker, what it starts, the GPU engine, and
# the shared libraries that they need. The node needs the C library of this machine or a newer one, and for GPUs the
# driver. The folder works in any place. Also writes OUT_DIR.tar.gz. docs/install.md explains its use.
# usage: deploy/worker_bundle.sh [--no-cuda-libraries] BUILD_DIR OUT_DIR
#   --no-cuda-libraries  leaves out CUDA's runtime, cuBLAS, cuDNN and NCCL, which take 1 GB; the node has them
set -euo pipefail

usage() {
  echo "usage: deploy/worker_bundle.sh [--no-cuda-libraries] BUILD_DIR OUT_DIR" >&2
  exit 2
}

refuse() {
  echo "autocfg: worker_bundle: $*" >&2
  exit 1
}

with_cuda=1
if [[ ${1:-} == --no-cuda-libraries ]]; then
  with_cuda=0
  shift
fi
[[ $# -eq 2 && $1 != -* ]] || usage
build=$1 out=$2
# shellcheck source=deploy/bundled_libraries.sh
source "$(dirname "${BASH_SOURCE[0]}")/bundled_libraries.sh"
command -v patchelf >/dev/null || refuse "patchelf is missing; install it (apt-get install patchelf)"

programs=("$build"/bin/autocfg-{worker,supervisor,trainer})
for program in "${programs[@]}"; do
  [[ -f $program ]] || refuse "$program is missing; run ./dev build"
done
engine=$build/bin/libautocfg_cuda.so
if [[ -f $engine ]]; then
  programs+=("$engine")
else
  echo "autocfg: worker_bundle: without GPUs: $(cat "$build/cuda_engine.txt" 2>/dev/null || echo 'no CUDA engine is built')" >&2
fi

# Removes OUT_DIR only if it is an earlier bundle.
if [[ -e $out && ! -f $out/lib/libucs.so.0 && -n $(ls -A "$out" 2>/dev/null) ]]; then
  refuse "$out exists and is not a bundle; choose another folder"
fi
rm -rf "$out" "$out.tar.gz"
mkdir -p "$out/bin" "$out/lib"
for program in "${programs[@]}"; do
  install -m 755 "$program" "$out/bin/"
  strip --strip-unneeded "$out/bin/$(basename "$program")"
done
find_libraries "${programs[@]}"
pack_libraries "$out/lib"
pack_transports "$out/lib" cma ib rdmacm
if [[ $with_cuda -eq 1 ]]; then
  for name in "${!cuda_libraries[@]}"; do
    [[ -f ${cuda_libraries[$name]} ]] || refuse "$name, which the GPU engine needs, is not on this machine; --no-cuda-libraries leaves it to the node"
    install -m 644 "${cuda_libraries[$name]}" "$out/lib/$name"
  done
  # The engine opens these by name, from its run path too. It runs without them.
  if [[ -f $engine ]]; then
    IFS=: read -ra directories <<<"$(patchelf --print-rpath "$engine")"
    for pattern in 'libcudnn*.so.9' libnccl.so.2; do
      found=0
      for directory in "${directories[@]}" /usr/lib/x86_64-linux-gnu; do
        for library in "$directory"/$pattern; do
          [[ -f $library ]] || continue
          found=1
          install -m 644 "$library" "$out/lib/$(basename "$library")"
        done
        [[ $found -eq 0 ]] || break
      done
      [[ $found -eq 1 ]] || echo "autocfg: worker_bundle: $pattern is not on this machine; the node needs its own, or works without" >&2
    done
  fi
fi

# What is in the bundle is found from wherever the bundle is, and before the node's own.
for program in "${programs[@]}"; do
  # shellcheck disable=SC2016
  run_path='$ORIGIN/../lib'
  [[ $program != "$engine" ]] || run_path+=:/usr/local/cuda/lib64:/usr/local/cuda/lib
  patchelf --set-rpath "$run_path" "$out/bin/$(basename "$program")"
done
shopt -s nullglob
# shellcheck disable=SC2016
for file in "$out"/lib/ucx/*; do patchelf --set-rpath '$ORIGIN/..' "$file"; done
for name in "${!libraries[@]}"; do
  # shellcheck disable=SC2016
  patchelf --set-rpath '$ORIGIN' "$out/lib/$name"
done

tar -C "$(dirname "$out")" -czf "$out.tar.gz" "$(basename "$out")"
echo "autocfg: bundle: $out ($(du -sh "$out" | cut -f1)), $out.tar.gz ($(du -sh "$out.tar.gz" | cut -f1))" >&2
