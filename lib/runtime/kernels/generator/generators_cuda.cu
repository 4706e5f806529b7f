#include "runtime/kernels/generator/generators.h"

#include <bit>
#include <memory>

#include "runtime/kernels/common/element_types.h"
#include "runtime/kernels/cuda/launch.h"
#include "runtime/kernels/cuda/words.h"
#include "runtime/kernels/elementwise/functions.h"
#include "runtime/kernels/generator/kernels.h"

namespace autopar::runtime::cuda {
namespace {

/// What each kernel here has: a thread an element of the output.
class ElementKernel : public Kernel {
 public:
  explicit ElementKernel(const KernelRequest& request)
      : elements_(checked_count(request, request.outputs.at(0).elements())),
        element_bytes_(element_bytes_of(request, request.outputs[0])) {}

  void run(const KernelIo& io) final {
    if (elements_ > 0) run_elements(io, a_thread_each(elements_));
  }

 protected:
  virtual void run_elements(const KernelIo& io, const LaunchShape& shape) = 0;

  std::uint32_t elements_;
  int element_bytes_;
};

__device__ std::uint32_t thread_number() { return blockIdx.x * blockDim.x + threadIdx.x; }

template <typename T>
__global__ void range(const T* start, const T* delta, T* out, std::uint32_t elements) {
  const std::uint32_t i = thread_number();
  if (i < elements) out[i] = functions::Add{}(*start, functions::Mul{}(static_cast<T>(i), *delta));
}

template <typename T>
class RangeKernel final : public ElementKernel {
 public:
  using ElementKernel::ElementKernel;

 protected:
  void run_elements(const KernelIo& io, const LaunchShape& shape) override {
    launch(stream_of(io), shape, range<T>, io.inputs[0].as<const T>(), io.inputs[2].as<const T>(),
           io.outputs[0].as<T>(), elements_);
  }
};

template <typename Word>
__global__ void eye(Word* out, FastDivisor columns, std::int64_t diagonal, std::uint64_t one,
                    std::uint32_t elements) {
  const std::uint32_t i = thread_number();
  if (i >= elements) return;
  std::uint32_t row = i;
  const std::uint32_t column = columns.divide(row);
  out[i] = column == row + diagonal ? static_cast<Word>(one) : Word{0};
}

class EyeKernel final : public ElementKernel {
 public:
  explicit EyeKernel(const KernelRequest& request)
      : ElementKernel(request),
        diagonal_(eye_diagonal(request)),
        one_(std::bit_cast<std::uint64_t>(one_of(request.outputs[0].type))) {
    if (elements_ > 0) columns_ = FastDivisor(request.outputs[0].shape[1]);
  }

 protected:
  void run_elements(const KernelIo& io, const LaunchShape& shape) override {
    visit_element(element_bytes_, [&]<typename Word>(Word) {
      launch(stream_of(io), shape, eye<Word>, io.outputs[0].as<Word>(), columns_, diagonal_, one_,
             elements_);
    });
  }

 private:
  std::int64_t diagonal_;
  std::uint64_t one_;
  FastDivisor columns_;
};

/// Keeps the elements at or above diagonal `k` (upper), or at or below it.
template <typename Word>
__global__ void trilu(const Word* in, Word* out, const std::int64_t* k, bool is_upper,
                      FastDivisor rows, FastDivisor columns, std::uint32_t elements) {
  const std::uint32_t i = thread_number();
  if (i >= elements) return;
  std::uint32_t rest = i;
  const std::int64_t column = columns.divide(rest);
  const std::int64_t diagonal = rows.divide(rest) + (k == nullptr ? 0 : *k);
  const bool is_kept = is_upper ? column >= diagonal : column <= diagonal;
  out[i] = is_kept ? in[i] : Word{0};
}

class TriluKernel final : public ElementKernel {
 public:
  explicit TriluKernel(const KernelRequest& request)
      : ElementKernel(request), is_upper_(keeps_upper_triangle(request)) {
    const Shape& shape = request.outputs[0].shape;
    if (elements_ == 0) return;
    rows_ = FastDivisor(shape[shape.size() - 2]);
    columns_ = FastDivisor(shape.back());
  }

 protected:
  void run_elements(const KernelIo& io, const LaunchShape& shape) override {
    const bool has_k = io.inputs.size() > 1 && io.inputs[1].present();
    const std::int64_t* k = has_k ? io.inputs[1].as<const std::int64_t>() : nullptr;
    visit_element(element_bytes_, [&]<typename Word>(Word) {
      launch(stream_of(io), shape, trilu<Word>, io.inputs[0].as<const Word>(),
             io.outputs[0].as<Word>(), k, is_upper_, rows_, columns_, elements_);
    });
  }

 private:
  bool is_upper_;
  FastDivisor rows_;
  FastDivisor columns_;
};

/// values[1] where the index of the row names the place along the axis, else values[0]. Indices out
/// of range leave their rows off.
template <typename Index, typename Word>
__global__ void one_hot(const Index* indices, const Word* values, Word* out, FastDivisor depth,
                        FastDivisor inner, std::uint32_t elements) {
  const std::uint32_t i = thread_number();
  if (i >= elements) return;
  std::uint32_t rest = i;
  const std::uint32_t column = inner.divide(rest);
  const std::int64_t place = depth.divide(rest);
  auto index = static_cast<std::int64_t>(indices[rest * inner.divisor() + column]);
  if (index < 0) index += depth.divisor();
  out[i] = values[index == place ? 1 : 0];
}

class OneHotKernel final : public ElementKernel {
 public:
  explicit OneHotKernel(const KernelRequest& request) : ElementKernel(request) {
    const AxisExtents extents = one_hot_extents(request);
    if (elements_ == 0) return;
    depth_ = FastDivisor(extents.extent);
    inner_ = FastDivisor(extents.inner);
  }

 protected:
  void run_elements(const KernelIo& io, const LaunchShape& shape) override {
    visit_type(io.inputs[0].type, Numbers{}, [&]<typename Index>(Index) {
      visit_element(element_bytes_, [&]<typename Word>(Word) {
        launch(stream_of(io), shape, one_hot<Index, Word>, io.inputs[0].as<const Index>(),
               io.inputs[2].as<const Word>(), io.outputs[0].as<Word>(), depth_, inner_, elements_);
      });
    });
  }

 private:
  FastDivisor depth_;
  FastDivisor inner_;
};

}  // namespace

std::unique_ptr<Kernel> make_range(const KernelRequest& request) {
  std::unique_ptr<Kernel> kernel;
  if (!visit_type(request.outputs.at(0).type, SignedNumbers{},
                  [&]<typename T>(T) { kernel = std::make_unique<RangeKernel<T>>(request); }))
    fail_type(request, request.outputs[0].type);
  return kernel;
}

std::unique_ptr<Kernel> make_eye_like(const KernelRequest& request) {
  return std::make_unique<EyeKernel>(request);
}

std::unique_ptr<Kernel> make_trilu(const KernelRequest& request) {
  return std::make_unique<TriluKernel>(request);
}

std::unique_ptr<Kernel> make_one_hot(const KernelRequest& request) {
  return std::make_unique<OneHotKernel>(request);
}

}  // namespace autopar::runtime::cuda
