#pragma once

/// A function that every device's compiler inlines into its loops.
#if defined(__CUDACC__)
#define AUTOPAR_ELEMENTWISE __host__ __device__ __forceinline__
#else
#define AUTOPAR_ELEMENTWISE [[gnu::always_inline]] inline
#endif
