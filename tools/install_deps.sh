#!/usr/bin/env bash
# Installs the packages that building and testing need, by apt (Debian, Ubuntu) or Homebrew (macOS). Does nothing when all are there.
set -euo pipefail

apt_packages=(build-essential cmake ninja-build pkg-config git ca-certificates python3 libfmt-dev nlohmann-json3-dev libcli11-dev
  libutf8proc-dev libedit-dev libgtest-dev libbenchmark-dev)
brew_packages=(cmake ninja pkg-config fmt nlohmann-json cli11 utf8proc googletest google-benchmark)

if command -v dpkg-query >/dev/null && command -v apt-get >/dev/null; then
  missing=()
  for package in "${apt_packages[@]}"; do
    status=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$status" = installed ] || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && exit 0
  as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || { echo "missing packages: ${missing[*]}; run as root or install sudo" >&2; exit 2; }
    as_root=(sudo)
  fi
  echo "installing: ${missing[*]}"
  "${as_root[@]}" apt-get update -qq
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
elif command -v brew >/dev/null; then
  for package in "${brew_packages[@]}"; do
    brew list --versions "$package" >/dev/null 2>&1 || brew install "$package"
  done
else
  echo "neither apt-get nor brew found: install a C++20 compiler, CMake 3.25, Ninja, pkg-config, fmt, nlohmann-json, CLI11, utf8proc," \
    "libedit, GoogleTest and Google Benchmark by hand" >&2
  for tool in cmake ninja pkg-config c++; do command -v "$tool" >/dev/null || exit 2; done
fi
