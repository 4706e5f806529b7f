#include "runtime/kernels/attention/rotary_embedding.h"

#include <algorithm>

#include "base/error.h"
#include "runtime/device.h"
#include "runtime/kernels/attention/kernels.h"
#include "runtime/kernels/common/element_types.h"
#include "runtime/kernels/common/kernel_arguments.h"
#include "runtime/kernels/cpu/simd_clones.h"

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
class RotaryEmbedding final : public Kernel {
 public:
  explicit RotaryEmbedding(const KernelRequest& request)
      : of_(rotary_problem(request)),
        threads_(request.device.threads()),
        node_(request.node.name) {}

  void run(const KernelIo& io) override {
    if (of_.rows * of_.row_elements == 0) return;
    const std::int64_t* positions = nullptr;
    if (of_.has_positions) {
      positions = io.inputs[3].as<const std::int64_t>();
      for (std::int64_t i = 0; i < io.inputs[3].elements(); ++i)
        if (positions[i] < 0 || positions[i] >= of_.table_rows)
          fail("node '{}': position {} is not among the {} of the tables", node_, positions[i],
               of_.table_rows);
    }
    const bool is_large = of_.rows * of_.row_elements > 16384;
#pragma omp parallel for num_threads(threads_) if (is_large)
    for (std::int64_t row = 0; row < of_.rows; ++row) run_row(io, row, positions);
  }

 private:
  void run_row(const KernelIo& io, std::int64_t row, const std::int64_t* positions) const {
    auto [cos, sin, position] = of_.places_of(row);
    if (positions != nullptr) cos = sin = positions[position] * of_.pairs;
    turn_row(of_, Row<T>{io.inputs[0].as<const T>() + row * of_.row_elements,
                         io.outputs[0].as<T>() + row * of_.row_elements,
                         io.inputs[1].as<const T>() + cos, io.inputs[2].as<const T>() + sin});
  }

  RotaryProblem of_;
  int threads_;
  std::string node_;
};

}  // namespace

std::unique_ptr<Kernel> make_rotary_embedding(const KernelRequest& request) {
  return kernel_for_type<RotaryEmbedding>(request, request.inputs.at(0).type,
                                          Joined<Floats, Halves>{});
}

}  // namespace autopar::runtime::cpu
