#!/usr/bin/env bash
# clang-tidy over the given files, or over every source of the build tree that it covers. Exits non-zero on any finding.
set -euo pipefail
cd "$(dirname "$0")/.."
cmake --preset dev -DCMAKE_CXX_COMPILER=clang++ -B build/tidy >/dev/null
if [ $# -gt 0 ]; then
  files=("$@")
else
  mapfile -t files < <(git ls-files 'src/*.cpp' 'tests/*.cpp' | grep -v 'kernels/level_neon.cpp')
fi
covered=()
for file in "${files[@]}"; do
  grep -q "\"file\": \"$PWD/$file\"" build/tidy/compile_commands.json && covered+=("$file")
done
[ ${#covered[@]} -eq 0 ] && { echo "clang-tidy: nothing to check"; exit 0; }
printf '%s\n' "${covered[@]}" | xargs -P "$(nproc)" -n 1 clang-tidy --quiet -p build/tidy 2>&1 | { grep -vE '^[0-9]+ warnings? (generated|treated)|Suppressed|Use -header-filter' || true; }
status=("${PIPESTATUS[@]}")
[ "${status[1]}" -eq 0 ] || exit 1
echo "clang-tidy: ${#covered[@]} files clean"
