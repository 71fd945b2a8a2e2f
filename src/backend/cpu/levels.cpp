#include "backend/cpu/levels.h"

#if defined(__linux__) && defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#include <algorithm>

#include "base/error.h"

namespace lily {

std::string_view simd_level_name(SimdLevel level) {
  switch (level) {
    case SimdLevel::kPortable:
      return "portable";
    case SimdLevel::kNeon:
      return "neon";
    case SimdLevel::kAvx2:
      return "avx2";
    case SimdLevel::kAvx512:
      return "avx512";
  }
  return "unknown";
}

std::vector<SimdLevel> available_simd_levels() {
  std::vector<SimdLevel> levels = {SimdLevel::kPortable};
#if defined(LILY_HAVE_NEON) && defined(__linux__)
  if ((getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0) {  // the level's byte dot product; older cores take the portable one
    levels.push_back(SimdLevel::kNeon);
  }
#elif defined(LILY_HAVE_NEON)
  levels.push_back(SimdLevel::kNeon);
#endif
#if defined(LILY_HAVE_AVX2)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    levels.push_back(SimdLevel::kAvx2);
  }
#endif
#if defined(LILY_HAVE_AVX512)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vnni")) {
    levels.push_back(SimdLevel::kAvx512);
  }
#endif
  return levels;
}

namespace cpu {

const KernelTable& kernels_of(SimdLevel level) {
  const std::vector<SimdLevel> levels = available_simd_levels();
  if (std::find(levels.begin(), levels.end(), level) == levels.end()) {
    throw Error(ErrorCode::kUnsupported, "SIMD level {} is not available on this machine", simd_level_name(level));
  }
  switch (level) {
#if defined(LILY_HAVE_NEON)
    case SimdLevel::kNeon:
      return neon_kernels();
#endif
#if defined(LILY_HAVE_AVX2)
    case SimdLevel::kAvx2:
      return avx2_kernels();
#endif
#if defined(LILY_HAVE_AVX512)
    case SimdLevel::kAvx512:
      return avx512_kernels();
#endif
    default:
      return portable_kernels();
  }
}

}  // namespace cpu
}  // namespace lily
