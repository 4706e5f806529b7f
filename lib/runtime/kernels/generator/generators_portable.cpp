// Tensors made from shapes and a few numbers. Elements are moved by their size alone.

#include <algorithm>
#include <bit>
#include <concepts>
#include <limits>

#include "runtime/device.h"
#include "runtime/kernels/common/loops.h"
#include "runtime/kernels/elementwise/functions.h"
#include "runtime/kernels/generator/kernels.h"

namespace autopar::runtime::AUTOPAR_DEVICE {

/// All of the output, as one row.
template <typename T>
struct RangeRow {
  const T* start;  ///< one number
  const T* delta;  ///< one number
  T* out;          ///< [elements]

  AUTOPAR_ELEMENTWISE auto operator()(std::int64_t) const {
    return [to = out, first = *start, step = *delta](std::int64_t i) {
      to[i] = functions::Add{}(first, functions::Mul{}(static_cast<T>(i), step));
    };
  }
};

template <typename Word>
struct EyeRows {
  Word* out;  ///< [rows, columns]
  std::int64_t columns;
  std::int64_t diagonal;  ///< columns right of the main one
  Word one;

  AUTOPAR_ELEMENTWISE auto operator()(std::int64_t row) const {
    return [to = out + row * columns, place = row + diagonal, one = one](std::int64_t column) {
      to[column] = column == place ? one : Word{};
    };
  }
};

/// Keeps the elements at or above diagonal `k` of each matrix (upper), or at or below it.
template <typename Word>
struct TriangleRows {
  const Word* in;         ///< [matrices, rows, columns]
  Word* out;              ///< as in
  const std::int64_t* k;  ///< null for 0
  std::int64_t rows;      ///< of a matrix
  std::int64_t columns;
  bool is_upper;

  AUTOPAR_ELEMENTWISE auto operator()(std::int64_t row) const {
    // Diagonals beyond the matrix are all alike, and their sums with a row would overflow.
    const std::int64_t given = k == nullptr ? 0 : *k;
    const std::int64_t beyond = given < -rows ? -rows : given > columns ? columns : given;
    const std::int64_t diagonal = row % rows + beyond;
    return [from = in + row * columns, to = out + row * columns, diagonal,
            is_upper = is_upper](std::int64_t column) {
      const bool is_kept = is_upper ? column >= diagonal : column <= diagonal;
      to[column] = is_kept ? from[column] : Word{};
    };
  }
};

/// An index as an integer; one that names no place where it is NaN or beyond 64 bits.
template <typename Index>
AUTOPAR_ELEMENTWISE std::int64_t place_of(Index index) {
  if constexpr (std::floating_point<Index>) {
    constexpr Index limit = 9e18;
    if (!(index > -limit && index < limit)) return std::numeric_limits<std::int64_t>::min();
  }
  return static_cast<std::int64_t>(index);
}

/// values[1] where the index names the place along the axis, else values[0]; all off where it is
/// out of range. Rows are the output's outer dimensions.
template <typename Index, typename Word>
struct OneHotRows {
  const Index* indices;  ///< [outer, inner]
  const Word* values;    ///< [2]: off, on
  Word* out;             ///< [outer, depth, inner]
  AxisExtents extents;

  AUTOPAR_ELEMENTWISE auto operator()(std::int64_t row) const {
    const std::int64_t inner = extents.inner;
    const Index* of_row = indices + row * inner;
    const auto place_at = [depth = extents.extent, of_row](std::int64_t column) {
      const std::int64_t index = place_of(of_row[column]);
      return index < 0 ? index + depth : index;
    };
    return [to = out + row * extents.extent * inner, inner, place_at, first = place_at(0),
            off = values[0], on = values[1]](std::int64_t i) {
      const bool is_on = inner == 1 ? i == first : i / inner == place_at(i % inner);
      to[i] = is_on ? on : off;
    };
  }
};

std::unique_ptr<Kernel> make_range(const KernelRequest& request) {
  return kernel_for_type(request, request.outputs.at(0).type, SignedNumbers{}, [&]<typename T>(T) {
    return make_loops(request, [](const KernelIo& io, const Loops& loops) {
      loops.rows(1, io.outputs[0].elements(),
                 RangeRow<T>{io.inputs[0].as<const T>(), io.inputs[2].as<const T>(),
                             io.outputs[0].as<T>()});
    });
  });
}

std::unique_ptr<Kernel> make_eye_like(const KernelRequest& request) {
  const TensorView& out = request.outputs.at(0);
  if (out.shape.size() != 2) fail("node '{}': EyeLike makes a matrix", request.node.name);
  const std::int64_t diagonal =
      std::clamp(request.node.int_attribute("k", 0), -out.shape[0], out.shape[1]);
  return kernel_for_type(request, stored_type(out.type), AllNumbers{}, [&]<typename T>(T) {
    std::unique_ptr<Kernel> kernel;
    visit_size(sizeof(T), UnsignedIntegers{}, [&]<typename Word>(Word) {
      if constexpr (sizeof(Word) == sizeof(T))
        kernel = make_loops(request, [=](const KernelIo& io, const Loops& loops) {
          const Shape& shape = io.outputs[0].shape;
          loops.rows(shape[0], shape[1],
                     EyeRows<Word>{io.outputs[0].as<Word>(), shape[1], diagonal,
                                   std::bit_cast<Word>(narrowed<T>(1.0F))});
        });
    });
    return kernel;
  });
}

std::unique_ptr<Kernel> make_trilu(const KernelRequest& request) {
  const TensorView& out = request.outputs.at(0);
  if (out.shape.size() < 2)
    fail("node '{}': Trilu needs at least two dimensions", request.node.name);
  const bool is_upper = request.node.int_attribute("upper", 1) != 0;
  const AxisExtents matrix = extents_around(out.shape, out.shape.size() - 2);
  return kernel_for_element(request, out, [&]<typename Word>(Word) {
    return make_loops(request, [=](const KernelIo& io, const Loops& loops) {
      loops.rows(matrix.outer * matrix.extent, matrix.inner,
                 TriangleRows<Word>{io.inputs[0].as<const Word>(), io.outputs[0].as<Word>(),
                                    optional_data<const std::int64_t>(io.inputs, 1), matrix.extent,
                                    matrix.inner, is_upper});
    });
  });
}

std::unique_ptr<Kernel> make_one_hot(const KernelRequest& request) {
  const DataType type = request.inputs.at(0).type;
  if (!visit_type(type, Numbers{}, [](auto) {}))
    fail("node '{}': OneHot of {} indices has no {} kernel", request.node.name, name_of(type),
         request.device.kernels().device);
  const TensorView& out = request.outputs.at(0);
  const AxisExtents extents = extents_around_axis(request, out.shape, -1);
  return kernel_for_element(request, out, [&]<typename Word>(Word) {
    return kernel_for_type(request, type, Numbers{}, [&]<typename Index>(Index) {
      return make_loops(request, [=](const KernelIo& io, const Loops& loops) {
        if (io.outputs[0].elements() == 0) return;
        loops.rows(
            extents.outer, extents.extent * extents.inner,
            OneHotRows<Index, Word>{io.inputs[0].as<const Index>(), io.inputs[2].as<const Word>(),
                                    io.outputs[0].as<Word>(), extents});
      });
    });
  });
}

}  // namespace autopar::runtime::AUTOPAR_DEVICE
