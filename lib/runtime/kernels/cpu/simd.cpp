#include "runtime/kernels/cpu/simd.h"

namespace autopar::runtime::cpu {

SimdLevel simd_level() {
#if defined(__x86_64__)
  static const SimdLevel level = [] {
    if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
      return SimdLevel::avx512;
    const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    return has_avx2 ? SimdLevel::avx2 : SimdLevel::baseline;
  }();
  return level;
#else
  return SimdLevel::baseline;
#endif
}

}  // namespace autopar::runtime::cpu
