// FourierRows(rows [n, samples * in_parts], circle [length, 2]) -> bins [n, bins * out_parts] of
// the domain passes::internal_domain: Transform (fourier.cpp) by its definition, in double;
// `circle` has cosine and sine of every angle. An item is a number of a bin.

#include "runtime/kernels/common/loops.h"
#include "runtime/kernels/fourier/fourier_form.h"
#include "runtime/kernels/fourier/kernels.h"

namespace autopar::runtime::AUTOPAR_DEVICE {

template <typename T>
struct FourierBin {
  const T* rows;         ///< [n, samples, in_parts]
  const double* circle;  ///< [length, 2]
  T* out;                ///< [n, bins, out_parts]
  FourierForm of;

  std::int64_t item_work() const { return 4 * of.samples; }

  AUTOPAR_ELEMENTWISE void operator()(std::int64_t item) const {
    const auto& [length, samples, in_parts, bins, out_parts, is_inverse] = of;
    const std::int64_t k = item % bins;
    const T* row = rows + item / bins * samples * in_parts;
    double real = 0;
    double imaginary = 0;
    std::int64_t angle = 0;  // n k modulo the length
    for (std::int64_t n = 0; n < samples; ++n) {
      const double cosine = circle[2 * angle];
      const double sine = is_inverse ? circle[2 * angle + 1] : -circle[2 * angle + 1];
      // In half a spectrum all numbers but the ends stand for two.
      const bool is_doubled = is_inverse && out_parts == 1 && n != 0 && 2 * n != length;
      const double times = is_doubled ? 2 : 1;
      const auto a = static_cast<double>(widened(row[n * in_parts])) * times;
      const auto b = in_parts == 2 ? static_cast<double>(widened(row[n * 2 + 1])) * times : 0.0;
      real += a * cosine - b * sine;
      imaginary += a * sine + b * cosine;
      angle += k;
      if (angle >= length) angle -= length;
    }
    const double scale = is_inverse ? 1.0 / static_cast<double>(length) : 1.0;
    out[item * out_parts] = narrowed<T>(real * scale);
    if (out_parts == 2) out[item * 2 + 1] = narrowed<T>(imaginary * scale);
  }
};

std::unique_ptr<Kernel> make_fourier_rows(const KernelRequest& request) {
  if constexpr (on_cpu)
    if (auto kernel = cpu::make_fast_fourier_rows(request)) return kernel;
  const FourierForm form = fourier_form(request);
  const std::int64_t items = request.outputs[0].shape[0] * form.bins;
  return kernel_for_type(request, request.inputs[0].type, AllFloats{}, [&]<typename T>(T) {
    return make_loops(request, [=](const KernelIo& io, const Loops& loops) {
      loops.each(items, FourierBin<T>{io.inputs[0].as<const T>(), io.inputs[1].as<const double>(),
                                      io.outputs[0].as<T>(), form});
    });
  });
}

}  // namespace autopar::runtime::AUTOPAR_DEVICE
