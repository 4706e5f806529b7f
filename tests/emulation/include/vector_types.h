#pragma once

#include "host_defines.h"

// CUDA's vector types, with their sizes and alignments, and make_*.

#define AUTOPAR_VECTOR_TYPES(name, type, align2, align4)                         \
  struct name##1 {                                                               \
    type x;                                                                      \
  };                                                                             \
  struct alignas(align2) name##2 {                                               \
    type x, y;                                                                   \
  };                                                                             \
  struct name##3 {                                                               \
    type x, y, z;                                                                \
  };                                                                             \
  struct alignas(align4) name##4 {                                               \
    type x, y, z, w;                                                             \
  };                                                                             \
  constexpr name##1 make_##name##1(type x) { return {x}; }                       \
  constexpr name##2 make_##name##2(type x, type y) { return {x, y}; }            \
  constexpr name##3 make_##name##3(type x, type y, type z) { return {x, y, z}; } \
  constexpr name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }

AUTOPAR_VECTOR_TYPES(char, signed char, 2, 4)
AUTOPAR_VECTOR_TYPES(uchar, unsigned char, 2, 4)
AUTOPAR_VECTOR_TYPES(short, short, 4, 8)
AUTOPAR_VECTOR_TYPES(ushort, unsigned short, 4, 8)
AUTOPAR_VECTOR_TYPES(int, int, 8, 16)
AUTOPAR_VECTOR_TYPES(uint, unsigned, 8, 16)
AUTOPAR_VECTOR_TYPES(long, long, 16, 16)
AUTOPAR_VECTOR_TYPES(ulong, unsigned long, 16, 16)
AUTOPAR_VECTOR_TYPES(longlong, long long, 16, 16)
AUTOPAR_VECTOR_TYPES(ulonglong, unsigned long long, 16, 16)
AUTOPAR_VECTOR_TYPES(float, float, 8, 16)
AUTOPAR_VECTOR_TYPES(double, double, 16, 16)

#undef AUTOPAR_VECTOR_TYPES

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned vx = 1, unsigned vy = 1, unsigned vz = 1) : x(vx), y(vy), z(vz) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
  constexpr operator uint3() const { return {x, y, z}; }
};
