#!/usr/bin/env bash
# Installs missing packages that autocfg needs to build. Debian 12, Ubuntu 24.04; as root or with sudo.
# Usage: deploy/dependencies.sh [--bench | --tests | --lint | --gpu | --browser | --fuzz | --slurm | --schemas DIR] [--list]
#   --bench  also the packages that the benchmarks compare with
#   --tests  also the packages that tests alone need: those of other engines train with PyTorch
#   --lint   also the tools of ./dev lint, and those with which some tests check packages
#   --gpu    also the packages that pack a bundle for a machine with a GPU
#   --browser  also the browser in which tests open pages; Ubuntu has it as a snap alone, which this does not install
#   --fuzz   also the compiler that has libFuzzer
#   --slurm  also Slurm, on which tests run the batch script; munge, which it needs, becomes a service of this machine
#   --schemas DIR  also Node.js, and in DIR the schemas of Kubernetes that tests check manifests with
#   --list   print the packages instead
set -euo pipefail

packages=(
  # toolchain
  g++ cmake ninja-build ccache mold pkg-config git ca-certificates
  # RPC and messages
  libgrpc++-dev protobuf-compiler protobuf-compiler-grpc libprotobuf-dev grpc-proto libabsl-dev libssl-dev
  # readiness and watchdog of services
  libsystemd-dev
  # patterns of engines' logs
  libre2-dev
  # store
  libsqlite3-dev libsqlitecpp-dev
  # command line, text, logging
  libcli11-dev libfmt-dev libspdlog-dev nlohmann-json3-dev libeigen3-dev
  # files of training frameworks
  libyaml-dev libtomlplusplus-dev
  # reports: their charts, and pages over HTTP
  libjs-chart.js libmicrohttpd-dev
  # metrics
  prometheus-cpp-dev
  # engine
  libopenblas-dev libucx-dev
  # tests and benchmarks
  libgtest-dev libgmock-dev libbenchmark-dev python3 python3-grpcio python3-protobuf python3-prometheus-client
  iproute2
  # packages and bundles
  dpkg-dev patchelf
  # the Python package
  python3-pip python3-setuptools python3-venv python3-wheel
)

list=0
schemas=
while [[ $# -gt 0 ]]; do
  case "$1" in
    --bench | --tests) packages+=(python3-torch) ;;
    --lint) packages+=(clang-format clang-tidy shellcheck pyflakes3 lintian mypy) ;;
    --gpu) packages+=(binutils xz-utils) ;;
    --browser) grep -qx 'ID=ubuntu' /etc/os-release || packages+=(chromium) ;;
    --fuzz) packages+=(clang-14 libclang-rt-14-dev) ;;
    --slurm) packages+=(slurmctld slurmd slurm-client munge) ;;
    --schemas)
      schemas=${2:-}
      [[ -n $schemas ]] || { echo "autocfg: dependencies.sh: --schemas needs the directory to install them in" >&2; exit 2; }
      shift
      # Some packages of nodejs bring npm along, and conflict with Debian's npm.
      command -v npm >/dev/null || packages+=(nodejs npm)
      ;;
    --list) list=1 ;;
    *)
      echo "autocfg: dependencies.sh: unknown option '$1'; expected --bench, --tests, --lint, --gpu, --browser, --fuzz, --slurm, --schemas or --list" >&2
      exit 2
      ;;
  esac
  shift
done
if [[ $list -eq 1 ]]; then
  printf '%s\n' "${packages[@]}"
  exit 0
fi

if ! command -v dpkg-query >/dev/null; then
  echo "autocfg: this system has no dpkg; install the equivalents of: ${packages[*]}" >&2
  exit 2
fi

missing=()
for package in "${packages[@]}"; do
  state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
  [[ $state == installed ]] || missing+=("$package")
done

if [[ ${#missing[@]} -gt 0 ]]; then
  root=()
  if [[ $(id -u) -ne 0 ]]; then
    if ! command -v sudo >/dev/null; then
      echo "autocfg: packages are missing, and this user is not root and has no sudo; install as root: ${missing[*]}" >&2
      exit 2
    fi
    root=(sudo)
  fi
  echo "autocfg: installing ${#missing[@]} packages: ${missing[*]}" >&2
  # The apt index may be missing or stale; refresh it once, then install.
  "${root[@]}" apt-get update -qq >&2
  "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    -o DPkg::Lock::Timeout=300 "${missing[@]}" >&2
fi

# The list of what to install, with the digest of each package, is copied last: it is there when all is.
if [[ -n $schemas ]]; then
  wanted=$(dirname "${BASH_SOURCE[0]}")/../tests/deploy/kubernetes
  if ! cmp -s "$wanted/package-lock.json" "$schemas/installed.json"; then
    echo "autocfg: installing the schemas of Kubernetes in $schemas" >&2
    mkdir -p "$schemas"
    cp "$wanted/package.json" "$wanted/package-lock.json" "$schemas"
    npm ci --prefix "$schemas" --ignore-scripts --no-audit --no-fund --loglevel error >&2
    cp "$wanted/package-lock.json" "$schemas/installed.json"
  fi
fi
