// Det, by Gaussian elimination with the largest pivot of each column, in double. An item is a
// matrix.

#include <cmath>

#include "runtime/kernels/common/loops.h"
#include "runtime/kernels/product/kernels.h"

namespace autopar::runtime::AUTOPAR_DEVICE {

template <typename T>
class DeterminantItems {
 public:
  explicit DeterminantItems(const KernelRequest& request) {
    const Shape& shape = request.inputs.at(0).shape;
    if (shape.size() < 2 || shape.back() != shape[shape.size() - 2])
      fail("node '{}': Det of {}, which is no square matrix", request.node.name,
           graph::to_string(shape));
    extent_ = shape.back();
    matrices_ = request.outputs.at(0).elements();
  }

  std::int64_t scratch_bytes() const { return matrices_ * extent_ * extent_ * 8; }
  void bind(const KernelIo& io) {
    in_ = io.inputs[0].as<const T>();
    out_ = io.outputs[0].as<T>();
    work_ = reinterpret_cast<double*>(io.scratch);
  }
  std::int64_t items() const { return matrices_; }
  std::int64_t item_work() const { return extent_ * extent_ * extent_; }

  AUTOPAR_ELEMENTWISE void operator()(std::int64_t item) const {
    const std::int64_t n = extent_;
    double* a = work_ + item * n * n;
    for (std::int64_t i = 0; i < n * n; ++i)
      a[i] = static_cast<double>(widened(in_[item * n * n + i]));
    double determinant = 1;
    for (std::int64_t column = 0; column < n; ++column) {
      std::int64_t pivot = column;
      for (std::int64_t row = column + 1; row < n; ++row)
        if (std::fabs(a[row * n + column]) > std::fabs(a[pivot * n + column])) pivot = row;
      determinant *= a[pivot * n + column];
      if (a[pivot * n + column] == 0) break;
      if (pivot != column) {
        determinant = -determinant;
        for (std::int64_t k = column; k < n; ++k) {
          const double kept = a[column * n + k];
          a[column * n + k] = a[pivot * n + k];
          a[pivot * n + k] = kept;
        }
      }
      for (std::int64_t row = column + 1; row < n; ++row) {
        const double factor = a[row * n + column] / a[column * n + column];
        for (std::int64_t k = column + 1; k < n; ++k) a[row * n + k] -= factor * a[column * n + k];
      }
    }
    out_[item] = narrowed<T>(determinant);
  }

 private:
  std::int64_t extent_ = 0;
  std::int64_t matrices_ = 0;
  const T* in_ = nullptr;
  T* out_ = nullptr;
  double* work_ = nullptr;
};

std::unique_ptr<Kernel> make_determinant(const KernelRequest& request) {
  return loops_for_type<DeterminantItems>(request, request.inputs.at(0).type, AllFloats{});
}

}  // namespace autopar::runtime::AUTOPAR_DEVICE
