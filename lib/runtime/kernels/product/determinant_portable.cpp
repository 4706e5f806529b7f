// Det, by Gaussian elimination with the largest pivot of each column, in double. An item is a
// matrix.

#include <cmath>

#include "runtime/kernels/common/loops.h"
#include "runtime/kernels/product/kernels.h"

namespace autopar::runtime::AUTOPAR_DEVICE {

template <typename T>
struct MatrixDeterminant {
  const T* in;   ///< [matrices, n, n]
  double* work;  ///< as in
  T* out;        ///< [matrices]
  std::int64_t n;

  std::int64_t item_work() const { return n * n * n; }

  AUTOPAR_ELEMENTWISE void operator()(std::int64_t item) const {
    double* a = work + item * n * n;
    for (std::int64_t i = 0; i < n * n; ++i)
      a[i] = static_cast<double>(widened(in[item * n * n + i]));
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
    out[item] = narrowed<T>(determinant);
  }
};

std::unique_ptr<Kernel> make_determinant(const KernelRequest& request) {
  const Shape& shape = request.inputs.at(0).shape;
  if (shape.size() < 2 || shape.back() != shape[shape.size() - 2])
    fail("node '{}': Det of {}, which is no square matrix", request.node.name,
         graph::to_string(shape));
  const std::int64_t n = shape.back();
  const std::int64_t matrices = request.outputs.at(0).elements();
  return kernel_for_type(request, request.inputs[0].type, AllFloats{}, [&]<typename T>(T) {
    const auto run = [=](const KernelIo& io, const Loops& loops) {
      loops.each(matrices, MatrixDeterminant<T>{io.inputs[0].as<const T>(),
                                                reinterpret_cast<double*>(io.scratch),
                                                io.outputs[0].as<T>(), n});
    };
    return make_loops(request, run, matrices * n * n * 8);
  });
}

}  // namespace autopar::runtime::AUTOPAR_DEVICE
