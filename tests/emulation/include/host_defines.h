#pragma once

// CUDA's keywords for a C++ compiler. `__CUDACC__` stays undefined: all code is host code here.

#define AUTOPAR_EMULATED_CUDA 1

// libstdc++ writes `__attribute__((__noinline__))` there, before the keyword is a macro.
#include <memory>

#define __global__
#define __device__
#define __host__
#define __constant__
#define __grid_constant__
// As many instructions that do nothing before the kernel's first one as its blocks may have
// threads: src/kernel_info.cpp counts them. (In a template only sizeof makes a number of a constant
// in time.)
#define __launch_bounds__(threads, ...) \
  __attribute__((patchable_function_entry(sizeof(char[threads]), sizeof(char[threads]))))
#define __forceinline__ __inline__ __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __align__(bytes) __attribute__((aligned(bytes)))

// One block runs at a time in a host thread. Write `alignas` before the keyword or use `__align__`
// behind it. Dynamic shared memory is autopar::emulation::dynamic_shared().
#define __shared__ static thread_local
