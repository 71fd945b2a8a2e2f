#!/usr/bin/env bash
# Proves the two README commands on a fresh Debian 12: makes a minimal system with debootstrap, clones HEAD into it, runs `make demo`
# there, and `make test` with --test. Needs root and debootstrap; uses this machine's apt configuration.
#
# usage: prove_fresh_debian.sh DIR [--test]
set -euo pipefail
root=$1
repository=$(git -C "$(dirname "$0")/.." rev-parse --show-toplevel)
mirror=$(sed -nE 's/^deb (\[[^]]*\] )?([^ ]+) bookworm main.*/\2/p' /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null | head -n 1 || true)
[ -n "$mirror" ] || mirror=$(sed -nE 's/^URIs: *([^ ]+).*/\1/p' /etc/apt/sources.list.d/*.sources 2>/dev/null | head -n 1 || true)
[ -x "$root/bin/bash" ] || debootstrap --variant=minbase --no-check-gpg bookworm "$root" "$mirror" >"$root.debootstrap.log"
cp -r /etc/apt/apt.conf.d/. "$root/etc/apt/apt.conf.d/"
cp /etc/apt/sources.list "$root/etc/apt/sources.list" 2>/dev/null || true
cp -r /etc/apt/sources.list.d/. "$root/etc/apt/sources.list.d/" 2>/dev/null || true
cp /etc/resolv.conf "$root/etc/resolv.conf" 2>/dev/null || true
mkdir -p "$root/src"
git clone -q "$repository" "$root/src/lily.cpp.new"
rm -rf "$root/src/lily.cpp" && mv "$root/src/lily.cpp.new" "$root/src/lily.cpp"
mount --bind /proc "$root/proc"
mount --bind /dev "$root/dev"
trap 'umount "$root/proc" "$root/dev"' EXIT
# A minimal system has no make; everything else is the makefile's business.
chroot "$root" bash -c "apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends make >/dev/null"
chroot "$root" bash -c "cd /src/lily.cpp && git config --global --add safe.directory '*' 2>/dev/null; make demo"
if [ "${2:-}" = --test ]; then
  chroot "$root" bash -c "cd /src/lily.cpp && make test"
fi
