#include <algorithm>
#include <cstring>
#include <string>
#include <type_traits>

#include "runtime/device.h"
#include "runtime/kernels/cpu/in_threads.h"
#include "runtime/kernels/elementwise/functions.h"
#include "runtime/kernels/movement/element_lines.h"
#include "runtime/kernels/movement/kernels.h"

namespace autopar::runtime::cpu {
namespace {

constexpr std::int64_t parallel_elements = 16 * 1024;
/// Fewer elements of a slice are not worth a thread of their own.
constexpr std::int64_t least_part = 16;

/// The reduction that is none.
struct Replace {};

template <typename Op, typename T>
[[gnu::always_inline]] inline void put(T& element, T update) {
  if constexpr (std::is_same_v<Op, Replace>)
    element = update;
  else
    element = narrowed<T>(Op{}(widened(element), widened(update)));
}

/// KernelOf<T, Op> for the elements' type, or their size where updates replace them.
template <template <typename, typename> typename KernelOf>
std::unique_ptr<Kernel> kernel_of_reduction(const KernelRequest& request) {
  const ScatterReduction reduction = scatter_reduction(request);
  if (reduction == ScatterReduction::none)
    return kernel_for_element(request, request.inputs[0], [&]<typename Word>(Word) {
      return std::make_unique<KernelOf<Word, Replace>>(request);
    });
  return kernel_for_type(request, request.inputs[0].type, AllNumbers{},
                         [&]<typename T>(T) -> std::unique_ptr<Kernel> {
                           if (reduction == ScatterReduction::add)
                             return std::make_unique<KernelOf<T, functions::Add>>(request);
                           if (reduction == ScatterReduction::mul)
                             return std::make_unique<KernelOf<T, functions::Mul>>(request);
                           if (reduction == ScatterReduction::max)
                             return std::make_unique<KernelOf<T, functions::Max>>(request);
                           return std::make_unique<KernelOf<T, functions::Min>>(request);
                         });
}

void copy_data(const KernelIo& io) {
  const auto bytes = static_cast<std::size_t>(io.outputs[0].size_bytes());
  if (bytes > 0) std::memcpy(io.outputs[0].data, io.inputs[0].data, bytes);
}

/// Updates put onto the elements that indices name. Updates of one element keep their order: each
/// line is one thread's.
template <typename T, typename Op>
class ScatterElements final : public Kernel {
 public:
  explicit ScatterElements(const KernelRequest& request)
      : node_(request.node.name),
        threads_(request.device.threads()),
        lines_(element_indexing(request)) {}

  void run(const KernelIo& io) override {
    lines_.check(io.inputs[1], node_);
    copy_data(io);
    const std::int64_t most_parts = lines_.count() < parallel_elements ? 1
                                    : is_by_outer()                    ? lines_.outer
                                                                       : parts_of_row();
    const auto parts = std::max<std::int64_t>(1, std::min<std::int64_t>(threads_, most_parts));
    with_integers(io.inputs[1], [&](const auto* indices) {
      for_in_threads(threads_, parts,
                     [&](std::int64_t part) { put_part(io, indices, part, parts); });
    });
  }

 private:
  bool is_by_outer() const { return lines_.is_innermost() || lines_.outer >= threads_; }
  std::int64_t parts_of_row() const { return lines_.row_length() / least_part; }

  template <typename Index>
  void put_part(const KernelIo& io, const Index* indices, std::int64_t part,
                std::int64_t parts) const {
    T* const out = io.outputs[0].as<T>();
    const T* const updates = io.inputs[2].as<const T>();
    const auto put_one = [=](std::int64_t element, std::int64_t place) {
      put<Op>(out[element], updates[place]);
    };
    const std::int64_t rows_of_outer = lines_.rows() / std::max<std::int64_t>(1, lines_.outer);
    const auto begin_of = [&](std::int64_t n, std::int64_t i) { return n * i / parts; };
    std::int64_t first_row = 0;
    std::int64_t last_row = lines_.rows();
    std::int64_t first = 0;
    std::int64_t last = lines_.row_length();
    if (is_by_outer()) {
      first_row = begin_of(lines_.outer, part) * rows_of_outer;
      last_row = begin_of(lines_.outer, part + 1) * rows_of_outer;
    } else {
      first = begin_of(lines_.row_length(), part);
      last = begin_of(lines_.row_length(), part + 1);
    }
    for (std::int64_t row = first_row; row < last_row; ++row)
      lines_.each(indices, row, first, last, put_one);
  }

  std::string node_;
  int threads_;
  ElementLines lines_;
};

/// Updates put onto the slices that indices name, in their order: a part of each slice is one
/// thread's.
template <typename T, typename Op>
class ScatterND final : public Kernel {
 public:
  explicit ScatterND(const KernelRequest& request)
      : node_(request.node.name),
        threads_(request.device.threads()),
        indexing_(slice_indexing(request)) {}

  void run(const KernelIo& io) override {
    const std::int64_t count = indexing_.count();
    for (std::int64_t i = 0; i < count; ++i) indexing_.target(io.inputs[1], i, node_);  // checks
    copy_data(io);
    T* const out = io.outputs[0].as<T>();
    const T* const updates = io.inputs[2].as<const T>();
    const std::int64_t n = indexing_.slice_elements();
    const std::int64_t most_parts = count * n < parallel_elements ? 1 : n / least_part;
    const auto parts = std::max<std::int64_t>(1, std::min<std::int64_t>(threads_, most_parts));
    for_in_threads(threads_, parts, [&](std::int64_t part) {
      for (std::int64_t i = 0; i < count; ++i) {
        T* const slice = out + indexing_.target(io.inputs[1], i, node_) * n;
        const T* const update = updates + i * n;
        for (std::int64_t k = n * part / parts; k < n * (part + 1) / parts; ++k)
          put<Op>(slice[k], update[k]);
      }
    });
  }

 private:
  std::string node_;
  int threads_;
  SliceIndexing indexing_;
};

}  // namespace

std::unique_ptr<Kernel> make_scatter_elements(const KernelRequest& request) {
  return kernel_of_reduction<ScatterElements>(request);
}
std::unique_ptr<Kernel> make_scatter_nd(const KernelRequest& request) {
  return kernel_of_reduction<ScatterND>(request);
}

}  // namespace autopar::runtime::cpu
