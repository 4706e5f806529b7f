#pragma once

/// Compiles a function for several instruction sets and picks one when the program starts. Not
/// under ThreadSanitizer, which starts after the picking and would crash in it; nor by Clang before
/// 18, where other sources that call the function do not get the one picked but AVX-512's
/// (llvm/llvm-project#71706).
#if defined(__SANITIZE_THREAD__) || (defined(__clang__) && __clang_major__ < 18)
#define AUTOPAR_SIMD_CLONES
#elif defined(__clang__) || __GNUC__ >= 12
#define AUTOPAR_SIMD_CLONES [[gnu::target_clones("avx512f", "arch=x86-64-v3", "default")]]
#else  // no name for AVX2 with fused multiplication and addition
#define AUTOPAR_SIMD_CLONES [[gnu::target_clones("avx512f", "avx2", "default")]]
#endif
