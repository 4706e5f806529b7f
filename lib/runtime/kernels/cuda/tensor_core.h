#pragma once

#include "runtime/kernels/common/element_types.h"
#include "runtime/kernels/cuda/launch.h"

#if defined(__CUDACC__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

/// Instructions of a warp's tensor core, and the copies that feed it (PTX ISA: mma.sync, ldmatrix,
/// cp.async), for Float16 and BFloat16. The emulation has them lane by lane, by the PTX manual's
/// tables of fragments. All lanes of a warp take part.
namespace autopar::runtime::cuda {

/// Two halves in one register, the first in the lower bits.
template <typename T>
__device__ __forceinline__ std::uint32_t pack_halves(float first, float second) {
#if defined(__CUDA_ARCH__)
  if constexpr (std::is_same_v<T, Float16>) {
    const __half2 pair = __floats2half2_rn(first, second);
    return *reinterpret_cast<const std::uint32_t*>(&pair);
  } else {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(first, second);
    return *reinterpret_cast<const std::uint32_t*>(&pair);
  }
#else
  return std::uint32_t{narrowed<T>(first).bits} | std::uint32_t{narrowed<T>(second).bits} << 16;
#endif
}

/// The first pair of halves less the second.
template <typename T>
__device__ __forceinline__ std::uint32_t subtract_pairs(std::uint32_t x, std::uint32_t y) {
#if defined(__CUDA_ARCH__)
  using Pair = std::conditional_t<std::is_same_v<T, Float16>, __half2, __nv_bfloat162>;
  const Pair pair = __hsub2(reinterpret_cast<const Pair&>(x), reinterpret_cast<const Pair&>(y));
  return reinterpret_cast<const std::uint32_t&>(pair);
#else
  const auto number = [](std::uint32_t bits) {
    return to_float(T{static_cast<std::uint16_t>(bits)});
  };
  return pack_halves<T>(number(x) - number(y), number(x >> 16) - number(y >> 16));
#endif
}

/// c += a b for a [16, 16], b [16, 8], c [16, 8], each lane with its part of them. With g = lane /
/// 4 and t = lane % 4: a[0] has row g, columns 2t and 2t + 1; a[1] row g + 8; a[2] and a[3] the
/// same rows, columns 8 further. b[0] has column g, rows 2t and 2t + 1; b[1] rows 8 further. c[0],
/// c[1] are row g, columns 2t and 2t + 1; c[2], c[3] row g + 8.
template <typename T>
__device__ __forceinline__ void multiply_add(float (&c)[4], const std::uint32_t (&a)[4],
                                             const std::uint32_t (&b)[2]) {
#if defined(AUTOPAR_EMULATED_CUDA)
  struct Registers {
    std::uint32_t a[4];
    std::uint32_t b[2];
  };
  Registers of_lanes[32];
  emulation::warp_exchange(Registers{{a[0], a[1], a[2], a[3]}, {b[0], b[1]}}, of_lanes);
  const auto half_of = [](std::uint32_t pair, int i) {
    return to_float(T{static_cast<std::uint16_t>(i == 0 ? pair : pair >> 16)});
  };
  const int lane = emulation::lane_id();
  for (int i = 0; i < 4; ++i) {
    const int row = lane / 4 + (i < 2 ? 0 : 8);
    const int column = lane % 4 * 2 + i % 2;
    for (int k = 0; k < 16; ++k) {
      const Registers& with_a = of_lanes[row % 8 * 4 + k % 8 / 2];
      const Registers& with_b = of_lanes[column * 4 + k % 8 / 2];
      c[i] += half_of(with_a.a[row / 8 + k / 8 * 2], k % 2) * half_of(with_b.b[k / 8], k % 2);
    }
  }
#else
  if constexpr (std::is_same_v<T, Float16>)
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};\n"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  else
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};\n"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

/// Four 8 by 8 matrices of halves out of shared memory. Lane 8i + r gives the address of row r of
/// matrix i, 16-byte aligned; each lane gets of matrix i the elements 2 (lane % 4) and the next of
/// row lane / 4, or of column lane / 4 if `transposed`.
template <bool transposed>
__device__ __forceinline__ void load_matrices(std::uint32_t (&matrices)[4], const void* row) {
#if defined(AUTOPAR_EMULATED_CUDA)
  emulation::require_aligned("ldmatrix", row, 16);
  const std::uint16_t* rows[32];
  emulation::warp_exchange(static_cast<const std::uint16_t*>(row), rows);
  const int lane = emulation::lane_id();
  const auto element = [&](int i, int at) {
    return std::uint32_t{transposed ? rows[8 * i + at][lane / 4] : rows[8 * i + lane / 4][at]};
  };
  for (int i = 0; i < 4; ++i)
    matrices[i] = element(i, lane % 4 * 2) | element(i, lane % 4 * 2 + 1) << 16;
#else
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(row));
  if constexpr (transposed)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(matrices[0]), "=r"(matrices[1]), "=r"(matrices[2]), "=r"(matrices[3])
                 : "r"(address)
                 : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(matrices[0]), "=r"(matrices[1]), "=r"(matrices[2]), "=r"(matrices[3])
                 : "r"(address)
                 : "memory");
#endif
}

/// Begins to copy 16 bytes, both sides aligned, to shared memory; zeros where not `is_there`.
__device__ __forceinline__ void copy_async(void* shared, const void* global, bool is_there) {
#if defined(AUTOPAR_EMULATED_CUDA)
  emulation::require_aligned("cp.async", shared, 16);
  emulation::require_aligned("cp.async", global, 16);
  auto* to = static_cast<std::uint64_t*>(shared);
  const auto* from = static_cast<const std::uint64_t*>(global);
  for (int i = 0; i < 2; ++i) to[i] = is_there ? from[i] : 0;
#else
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
  const int bytes = is_there ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(address), "l"(global),
               "r"(bytes)
               : "memory");
#endif
}

/// Ends a batch of copies that this thread has begun.
__device__ __forceinline__ void end_copy_batch() {
#if !defined(AUTOPAR_EMULATED_CUDA)
  asm volatile("cp.async.commit_group;\n" ::: "memory");
#endif
}

/// Waits until at most `left` of this thread's latest batches are under way. Others see them after
/// a barrier.
template <int left>
__device__ __forceinline__ void wait_for_copies() {
#if !defined(AUTOPAR_EMULATED_CUDA)
  asm volatile("cp.async.wait_group %0;\n" ::"n"(left) : "memory");
#endif
}

}  // namespace autopar::runtime::cuda
