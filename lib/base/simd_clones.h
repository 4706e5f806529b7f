#pragma once

/// Compiles a function for several instruction sets and picks one when the program starts. Not
/// under ThreadSanitizer, which starts after the picking and would crash in it.
#if defined(__SANITIZE_THREAD__)
#define AUTOPAR_SIMD_CLONES
#else
#define AUTOPAR_SIMD_CLONES [[gnu::target_clones("avx512f", "avx2", "default")]]
#endif
