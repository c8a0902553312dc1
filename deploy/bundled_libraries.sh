# The shared libraries of a bundle: functions for deploy/gpu_bundle.sh and deploy/worker_bundle.sh, which define `refuse`.
# shellcheck shell=bash

# Not packed: libraries of every system, the driver's, and those that belong to an InfiniBand driver.
readonly c_library='^(ld-linux.*|lib(c|m|mvec|dl|rt|pthread|resolv|util|nsl|anl|nss_.*|thread_db|BrokenLocale))\.so'
readonly driver='^lib(cuda|nvidia-.*|ibverbs|rdmacm|mlx5)\.so'
readonly cuda='^lib(cudart|cublas|cublasLt|cudnn.*|nccl|nvrtc.*|nvJitLink|nvToolsExt)\.so'

# shellcheck disable=SC2034  # the scripts that use this file read both
declare -gA libraries=() cuda_libraries=()  # name -> path

# find_libraries PROGRAM...: fills `libraries` and `cuda_libraries` with what the programs need.
find_libraries() {
  local name arrow path program
  while read -r name arrow path _; do
    [[ $name =~ $c_library || $name =~ $driver ]] && continue
    if [[ $name =~ $cuda ]]; then
      # shellcheck disable=SC2034
      cuda_libraries[$name]=$path
      continue
    fi
    [[ ${arrow:-} == "=>" ]] || continue  # skips the kernel's own library, and libraries given by path
    [[ $path == not ]] && refuse "$name, which the programs need, is not on this machine"
    libraries[$name]=$path
  done < <(for program in "$@"; do ldd "$program"; done)
}

# pack_libraries DIRECTORY: copies `libraries` there, without their symbols.
pack_libraries() {
  local name
  for name in "${!libraries[@]}"; do
    install -m 644 "${libraries[$name]}" "$1/$name"
    strip --strip-unneeded "$1/$name"
  done
}

# pack_transports DIRECTORY NAME...: copies those transports of UCX, which it finds in the directory ucx beside itself.
pack_transports() {
  [[ -n ${libraries[libucs.so.0]:-} ]] || return 0
  local directory=$1 modules transport module
  modules=$(dirname "$(realpath "${libraries[libucs.so.0]}")")/ucx
  shift
  for transport in "$@"; do
    for module in "$modules/libuct_$transport".so*; do
      [[ -f $module ]] || continue
      mkdir -p "$directory/ucx"
      install -m 644 "$module" "$directory/ucx/$(basename "$module")"
    done
  done
}
