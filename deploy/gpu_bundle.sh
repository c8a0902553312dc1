#!/usr/bin/env bash
# Packs a folder that tests the CUDA engine on a machine with only a driver, CUDA's libraries and Python. It
# holds programs, the shared libraries that they need, models, benchmarks and the check. Also writes
# OUT_DIR.tar.xz for transfer. docs/gpu.md explains its use.
# usage: deploy/gpu_bundle.sh BUILD_DIR OUT_DIR
set -euo pipefail

readonly most_bytes=$((64 * 1024 * 1024))  # size limit of the compressed bundle

refuse() {
  echo "autocfg: gpu_bundle: $*" >&2
  exit 1
}

[[ $# -eq 2 ]] || { echo "usage: deploy/gpu_bundle.sh BUILD_DIR OUT_DIR" >&2; exit 2; }
build=$1 out=$2
source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=deploy/bundled_libraries.sh
source "$source_dir/deploy/bundled_libraries.sh"

programs=("$build/bin/autocfg" "$build/bin/autocfg-supervisor" "$build/bin/autocfg-trainer" "$build/bin/libautocfg_cuda.so" "$build/tests/gpu_test" "$build/bin/autocfg_gpu_ops_bench")
if [[ ! -f $build/bin/libautocfg_cuda.so ]]; then
  refuse "$build has no CUDA engine (bin/libautocfg_cuda.so): $(cat "$build/cuda_engine.txt" 2>/dev/null || echo 'it is not built yet'); run ./dev gpu"
fi
for program in "${programs[@]}"; do
  [[ -f $program ]] || refuse "$program is missing; run ./dev gpu, which builds it"
done

# Removes OUT_DIR only if it is an earlier bundle.
if [[ -e $out && ! -f $out/manifest.json && -n $(ls -A "$out" 2>/dev/null) ]]; then
  refuse "$out exists and is not a bundle; choose another folder"
fi
rm -rf "$out" "$out.tar.xz"
mkdir -p "$out/bin" "$out/lib" "$out/bench"

for program in "${programs[@]}"; do
  install -m 755 "$program" "$out/bin/"
  strip --strip-unneeded "$out/bin/$(basename "$program")"
done

find_libraries "${programs[@]}"
pack_libraries "$out/lib"
# Keeps only the CUDA libraries that the programs name directly; those bring their own dependencies.
named=$(for program in "${programs[@]}"; do objdump -p "$program"; done | awk '$1 == "NEEDED" {print $2}' | sort -u)
for name in "${!cuda_libraries[@]}"; do
  grep -qxF "$name" <<<"$named" || unset "cuda_libraries[$name]"
done
# Adds the libraries that the engine opens by name at first use; it runs without them, too.
at_run_time=(libcudnn.so.9 libnccl.so.2)
for name in "${at_run_time[@]}"; do
  grep -qF "$name" "$build/bin/libautocfg_cuda.so" || refuse "libautocfg_cuda.so does not open $name; update the list in deploy/gpu_bundle.sh"
  cuda_libraries[$name]=1
done

pack_transports "$out/lib" cma
cp "$source_dir/deploy/gpu_check" "$out/"
mkdir "$out/gpu" "$out/gpu/models"
cp "$source_dir"/deploy/gpu/*.py "$source_dir"/deploy/gpu/*.json "$out/gpu/"
cp "$source_dir"/deploy/gpu/models/*.json "$source_dir/search/data/models/gpt2-1.5b.json" "$out/gpu/models/"
cp "$source_dir"/bench/gpu_*_torch.py "$out/bench/"
cp "$source_dir/docs/gpu.md" "$out/README.md"

list() {  # prints a JSON list
  local text="" name
  for name in "$@"; do [[ -z $name ]] || text+="${text:+, }\"$name\""; done
  echo "[$text]"
}
revision=$(git -c safe.directory='*' -C "$source_dir" describe --always --dirty --abbrev=12 2>/dev/null || echo unknown)
readarray -t cuda_names < <(printf '%s\n' "${!cuda_libraries[@]}" | sort)
readarray -t names < <(printf '%s\n' "${!libraries[@]}" | sort)
cat >"$out/manifest.json" <<JSON
{
 "revision": "$revision",
 "engine": "$(cat "$build/cuda_engine.txt" 2>/dev/null || echo unknown)",
 "cuda_libraries": $(list "${cuda_names[@]}"),
 "cuda_libraries_at_run_time": $(list "${at_run_time[@]}"),
 "libraries": $(list "${names[@]}")
}
JSON

tar -C "$(dirname "$out")" -cf - "$(basename "$out")" | xz -T0 -3 >"$out.tar.xz"
bytes=$(stat -c %s "$out.tar.xz")
if [[ $bytes -gt $most_bytes ]]; then
  refuse "$out.tar.xz has $bytes bytes, more than $most_bytes; the largest files: $(du -a --block-size=1 "$out"/bin/* "$out"/lib/* | sort -rn | head -3 | tr '\n\t' ', ')"
fi
echo "autocfg: bundle: $out ($(du -sh "$out" | cut -f1)), $out.tar.xz ($((bytes / 1048576)) MiB)" >&2
