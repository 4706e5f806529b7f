// FourierRows(rows [n, samples * in_parts], circle [length, 2]) -> bins [n, bins * out_parts] of
// the domain passes::internal_domain: Transform (fourier.cpp) by its definition, in double;
// `circle` has cosine and sine of every angle. An item is a number of a bin.

#include "runtime/kernels/common/loops.h"
#include "runtime/kernels/fourier/kernels.h"

namespace autopar::runtime::AUTOPAR_DEVICE {

template <typename T>
class FourierItems {
 public:
  explicit FourierItems(const KernelRequest& request)
      : length_(request.inputs.at(1).shape[0]),
        in_parts_(request.node.int_attribute("in_parts", 1)),
        out_parts_(request.node.int_attribute("out_parts", 2)),
        is_inverse_(request.node.int_attribute("inverse", 0) != 0),
        samples_(request.inputs[0].shape[1] / in_parts_),
        bins_(request.outputs.at(0).shape[1] / out_parts_),
        items_(request.outputs[0].shape[0] * bins_) {}

  void bind(const KernelIo& io) {
    rows_ = io.inputs[0].as<const T>();
    circle_ = io.inputs[1].as<const double>();
    out_ = io.outputs[0].as<T>();
  }
  std::int64_t items() const { return items_; }
  std::int64_t item_work() const { return 4 * samples_; }

  AUTOPAR_ELEMENTWISE void operator()(std::int64_t item) const {
    const std::int64_t k = item % bins_;
    const T* row = rows_ + item / bins_ * samples_ * in_parts_;
    double real = 0;
    double imaginary = 0;
    std::int64_t angle = 0;  // n k modulo the length
    for (std::int64_t n = 0; n < samples_; ++n) {
      const double cosine = circle_[2 * angle];
      const double sine = is_inverse_ ? circle_[2 * angle + 1] : -circle_[2 * angle + 1];
      // In half a spectrum all numbers but the ends stand for two.
      const bool is_doubled = is_inverse_ && out_parts_ == 1 && n != 0 && 2 * n != length_;
      const double times = is_doubled ? 2 : 1;
      const auto a = static_cast<double>(widened(row[n * in_parts_])) * times;
      const auto b = in_parts_ == 2 ? static_cast<double>(widened(row[n * 2 + 1])) * times : 0.0;
      real += a * cosine - b * sine;
      imaginary += a * sine + b * cosine;
      angle += k;
      if (angle >= length_) angle -= length_;
    }
    const double scale = is_inverse_ ? 1.0 / static_cast<double>(length_) : 1.0;
    out_[item * out_parts_] = narrowed<T>(real * scale);
    if (out_parts_ == 2) out_[item * 2 + 1] = narrowed<T>(imaginary * scale);
  }

 private:
  std::int64_t length_;
  std::int64_t in_parts_;
  std::int64_t out_parts_;
  bool is_inverse_;
  std::int64_t samples_;
  std::int64_t bins_;
  std::int64_t items_;
  const T* rows_ = nullptr;
  const double* circle_ = nullptr;
  T* out_ = nullptr;
};

std::unique_ptr<Kernel> make_fourier_rows(const KernelRequest& request) {
  return kernel_for_type(request, request.inputs.at(0).type, Joined<Floats, Halves>{},
                         [&]<typename T>(T) { return make_loops<FourierItems<T>>(request); });
}

}  // namespace autopar::runtime::AUTOPAR_DEVICE
