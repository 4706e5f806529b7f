#include "runtime/kernels/attention/rotary_embedding.h"

#include <algorithm>

#include "base/simd_clones.h"
#include "runtime/device.h"
#include "runtime/kernels/attention/kernels.h"
#include "runtime/kernels/common/make_kernel.h"
#include "runtime/kernels/cpu/in_threads.h"

namespace autopar::runtime::cpu {
namespace {

template <typename T>
struct Row {
  const T* in;
  T* out;
  const T* cos;
  const T* sin;
};

template <typename T>
[[gnu::always_inline]] inline void turn(const RotaryProblem& of, const Row<T>& row) {
  const std::int64_t second = of.within_pair;
  const std::int64_t factor = of.second_factor;
  const auto pairs = [&](std::int64_t stride) {
    for (std::int64_t i = 0; i < of.pairs; ++i) {
      const auto a = widened(row.in[i * stride]);
      const auto b = widened(row.in[i * stride + second]);
      row.out[i * stride] = narrowed<T>(a * widened(row.cos[i]) - b * widened(row.sin[i]));
      row.out[i * stride + second] =
          narrowed<T>(b * widened(row.cos[i + factor]) + a * widened(row.sin[i + factor]));
    }
  };
  if (of.pair_stride == 1)
    pairs(1);
  else
    pairs(of.pair_stride);
  std::copy(row.in + 2 * of.pairs, row.in + of.row_elements, row.out + 2 * of.pairs);
}

AUTOPAR_SIMD_CLONES void turn_row(const RotaryProblem& of, const Row<float>& row) { turn(of, row); }
AUTOPAR_SIMD_CLONES void turn_row(const RotaryProblem& of, const Row<Float16>& row) {
  turn(of, row);
}
AUTOPAR_SIMD_CLONES void turn_row(const RotaryProblem& of, const Row<BFloat16>& row) {
  turn(of, row);
}
void turn_row(const RotaryProblem& of, const Row<double>& row) { turn(of, row); }

template <typename T>
std::unique_ptr<Kernel> make_rotation(const KernelRequest& request) {
  const RotaryProblem of = rotary_problem(request);
  return make_kernel(
      [of, node = request.node.name, threads = request.device.threads()](const KernelIo& io) {
        if (of.rows * of.row_elements == 0) return;
        const std::int64_t* positions = nullptr;
        if (of.has_positions) {
          positions = io.inputs[3].as<const std::int64_t>();
          for (std::int64_t i = 0; i < io.inputs[3].elements(); ++i)
            if (positions[i] < 0 || positions[i] >= of.table_rows)
              fail("node '{}': position {} is not among the {} of the tables", node, positions[i],
                   of.table_rows);
        }
        const bool is_large = of.rows * of.row_elements > 16384;
        for_in_threads(is_large ? threads : 1, of.rows, [&](std::int64_t row) {
          RotaryProblem::RowPlaces places = of.places_of(row);
          if (positions != nullptr) places.cos = places.sin = positions[places.position] * of.pairs;
          turn_row(of, Row<T>{io.inputs[0].as<const T>() + row * of.row_elements,
                              io.outputs[0].as<T>() + row * of.row_elements,
                              io.inputs[1].as<const T>() + places.cos,
                              io.inputs[2].as<const T>() + places.sin});
        });
      });
}

}  // namespace

std::unique_ptr<Kernel> make_rotary_embedding(const KernelRequest& request) {
  return kernel_for_type(request, request.inputs.at(0).type, AllFloats{},
                         [&]<typename T>(T) { return make_rotation<T>(request); });
}

}  // namespace autopar::runtime::cpu
