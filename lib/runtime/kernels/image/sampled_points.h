#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "runtime/kernels/common/element_types.h"
#include "runtime/kernels/common/for_device.h"
#include "runtime/kernels/convolution/windows.h"

// A function that GPUs call, rather than have once more at each place: it is large.
#if defined(__CUDACC__)
#define AUTOPAR_CALLED __host__ __device__ __noinline__
#else
#define AUTOPAR_CALLED inline
#endif

/// Images read between their places.
namespace autopar::runtime::AUTOPAR_DEVICE {

enum class Interpolation { nearest, linear, cubic };
/// What lies outside of an image.
enum class Outside { zeros, border, reflection };

/// `x` folded back between both ends by mirrors that stand there.
template <typename W>
AUTOPAR_ELEMENTWISE W reflected(W x, W low, W high) {
  const W range = high - low;
  if (range <= 0) return low;
  if (x >= low && x <= high) return x;
  const W beyond = x < low ? low - x : x - high;
  const W turns = std::floor(beyond / range);
  const W rest = beyond - turns * range;
  const bool is_even = turns - 2 * std::floor(turns / 2) == 0;
  return (x < low) == is_even ? low + rest : high - rest;
}

/// Neighbours of a coordinate along one dimension and their weights; -1 is a place that has 0.
template <typename W>
struct Neighbours {
  static constexpr int most = 4;

  int count = 0;
  int places[most] = {};
  W weights[most] = {};

  /// The coordinate counts places from 0 to `extent` - 1; mirrors stand at `low` and `high`.
  AUTOPAR_CALLED Neighbours(W x, int extent, Interpolation mode, Outside outside, W low, W high) {
    // What is no number, or none that can be counted, is far outside.
    constexpr W far = 1 << 24;
    if (!(x > -far)) x = -far;
    if (x > far) x = far;
    if (mode == Interpolation::nearest) x = std::rint(x);
    if (x < low || x > high) {
      const W last = static_cast<W>(extent - 1);
      if (outside == Outside::border) x = x < 0 ? W(0) : (x > last ? last : x);
      if (outside == Outside::reflection) x = reflected(x, low, high);
    }
    const auto add = [&](int place, W weight) {
      if (outside == Outside::border) place = place < 0 ? 0 : (place < extent ? place : extent - 1);
      if (outside == Outside::reflection)
        place = static_cast<int>(reflected(static_cast<W>(place), low, high));
      places[count] = place >= 0 && place < extent ? place : -1;
      weights[count] = weight;
      ++count;
    };
    const W base = std::floor(x);
    const W t = x - base;
    const int first = static_cast<int>(base);
    if (mode == Interpolation::nearest) {
      add(first, 1);
      return;
    }
    if (mode == Interpolation::linear) {
      add(first, 1 - t);
      add(first + 1, t);
      return;
    }
    for (int k = -1; k <= 2; ++k)
      add(first + k, cubic(k <= 0 ? t - static_cast<W>(k) : static_cast<W>(k) - t));
  }

 private:
  /// Keys' kernel with a = -0.75.
  AUTOPAR_ELEMENTWISE static W cubic(W distance) {
    const W a = W(-0.75);
    if (distance <= 1) return ((a + 2) * distance - (a + 3)) * distance * distance + 1;
    return ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a;
  }
};

/// Neighbours along a dimension that is not there.
template <typename W>
AUTOPAR_ELEMENTWISE Neighbours<W> alone() {
  return Neighbours<W>(0, 1, Interpolation::nearest, Outside::zeros, 0, 0);
}

/// What a point of an image is made of; dimensions that are not there come first.
template <typename W>
struct SampledPoint {
  Neighbours<W> along[Windows::dimensions];

  template <typename T>
  AUTOPAR_CALLED W of(const T* plane, const int* extents) const {
    W sum = 0;
    for (int i = 0; i < along[0].count; ++i) {
      const int a = along[0].places[i];
      if (a < 0) continue;
      for (int j = 0; j < along[1].count; ++j) {
        const int b = along[1].places[j];
        if (b < 0) continue;
        const T* row = plane + (std::int64_t{a} * extents[1] + b) * extents[2];
        W in_row = 0;
        for (int k = 0; k < along[2].count; ++k) {
          const int c = along[2].places[k];
          if (c >= 0) in_row += along[2].weights[k] * static_cast<W>(widened(row[c]));
        }
        sum += along[0].weights[i] * along[1].weights[j] * in_row;
      }
    }
    return sum;
  }
};

/// Points of some places that follow one another as lists of elements and their weights, which
/// serve all channels.
template <typename W>
class SampledTile {
 public:
  static constexpr int most_places = 32;
  AUTOPAR_ELEMENTWISE static std::int64_t tiles(std::int64_t all_places) {
    return (all_places + most_places - 1) / most_places;
  }

  /// Takes points in that have up to 8 neighbours, all as many.
  AUTOPAR_ELEMENTWISE void add(const SampledPoint<W>& point, const int* extents, W factor) {
    entries_ = 0;
    for (int i = 0; i < point.along[0].count; ++i)
      for (int j = 0; j < point.along[1].count; ++j)
        for (int k = 0; k < point.along[2].count; ++k)
          put(entries_++, extents, point.along[0].places[i], point.along[1].places[j],
              point.along[2].places[k],
              factor * point.along[0].weights[i] * point.along[1].weights[j] *
                  point.along[2].weights[k]);
    ++places_;
  }

  /// `to`: as many elements as there are places.
  template <typename T>
  AUTOPAR_ELEMENTWISE void read(const T* plane, auto* to) const {
    using To = std::remove_pointer_t<decltype(to)>;
    if (entries_ == 4 && is_inside_) {
      for (int p = 0; p < places_; ++p) {
        W sum = 0;
        for (int e = 0; e < 4; ++e) sum += weights_[p][e] * widened(plane[offsets_[p][e]]);
        to[p] = narrowed<To>(sum);
      }
      return;
    }
    for (int p = 0; p < places_; ++p) {
      W sum = 0;
      for (int e = 0; e < entries_; ++e)  // what lies outside may be infinite in what is read
        if (offsets_[p][e] >= 0) sum += weights_[p][e] * widened(plane[offsets_[p][e]]);
      to[p] = narrowed<To>(sum);
    }
  }

 private:
  static constexpr int most_entries = 8;

  AUTOPAR_ELEMENTWISE void put(int entry, const int* extents, int a, int b, int c, W weight) {
    const bool is_inside = a >= 0 && b >= 0 && c >= 0;
    offsets_[places_][entry] = is_inside ? (a * extents[1] + b) * extents[2] + c : -1;
    weights_[places_][entry] = weight;
    is_inside_ = is_inside_ && is_inside;
  }

  int places_ = 0;
  int entries_ = 0;                         ///< of each place
  bool is_inside_ = true;                   ///< all of all places
  int offsets_[most_places][most_entries];  ///< -1 where nothing lies
  W weights_[most_places][most_entries];
};

}  // namespace autopar::runtime::AUTOPAR_DEVICE
