// Several updates may meet at one place. So that every run gives the same bits, and those of the
// CPU, they count there in their order: where one replaces, the last is found by a maximum of
// integers; where they are combined, they are linked into a list a place, and each list is sorted.

#include <memory>

#include "graph/arena.h"
#include "runtime/kernels/cuda/launch.h"
#include "runtime/kernels/cuda/targets.h"
#include "runtime/kernels/elementwise/functions.h"
#include "runtime/kernels/movement/kernels.h"

namespace autopar::runtime::cuda {
namespace {

__device__ std::uint32_t thread_number() { return blockIdx.x * blockDim.x + threadIdx.x; }

template <typename Targets>
__global__ void find_last(const __grid_constant__ Targets targets, std::uint32_t updates,
                          int* last) {
  const std::uint32_t update = thread_number();
  if (update >= updates) return;
  const std::int64_t target = targets(update);
  if (target >= 0) atomicMax(&last[target], static_cast<int>(update));
}

template <typename Word, typename Targets>
__global__ void replace(const Word* updates, Word* out, const __grid_constant__ Targets targets,
                        FastDivisor row_words, std::uint32_t words, const int* last) {
  const std::uint32_t word = thread_number();
  if (word >= words) return;
  std::uint32_t update = word;
  const std::uint32_t column = row_words.divide(update);
  const std::int64_t target = targets(update);
  if (target >= 0 && last[target] == static_cast<int>(update))
    out[target * row_words.divisor() + column] = updates[word];
}

/// `first[target]` and `next[update]` are -1 where a list ends.
template <typename Targets>
__global__ void link(const __grid_constant__ Targets targets, std::uint32_t updates, int* first,
                     int* next) {
  const std::uint32_t update = thread_number();
  if (update >= updates) return;
  const std::int64_t target = targets(update);
  if (target >= 0) next[update] = atomicExch(&first[target], static_cast<int>(update));
}

/// Sorts a list by merging ever longer runs of it; returns where it begins.
__device__ int sorted(int first, int* next) {
  for (int run = 1;; run *= 2) {
    int rest = first;
    int end = -1;
    int merges = 0;
    while (rest >= 0) {
      int left = rest;
      int left_size = 0;
      for (; left_size < run && rest >= 0; ++left_size) rest = next[rest];
      int right_size = run;
      while (left_size > 0 || (right_size > 0 && rest >= 0)) {
        const bool take_left = left_size > 0 && (right_size == 0 || rest < 0 || left < rest);
        const int taken = take_left ? left : rest;
        if (take_left) {
          left = next[left];
          --left_size;
        } else {
          rest = next[rest];
          --right_size;
        }
        (end < 0 ? first : next[end]) = taken;
        end = taken;
      }
      ++merges;
    }
    next[end] = -1;
    if (merges == 1) return first;
  }
}

__global__ void sort_lists(int* first, std::uint32_t targets, int* next) {
  const std::uint32_t target = thread_number();
  if (target < targets && first[target] >= 0) first[target] = sorted(first[target], next);
}

template <typename T>
__device__ T combined(ScatterReduction reduction, T element, T update) {
  const auto x = widened(element);
  const auto y = widened(update);
  switch (reduction) {
    case ScatterReduction::add:
      return narrowed<T>(functions::Add{}(x, y));
    case ScatterReduction::mul:
      return narrowed<T>(functions::Mul{}(x, y));
    case ScatterReduction::max:
      return narrowed<T>(functions::Max{}(x, y));
    default:
      return narrowed<T>(functions::Min{}(x, y));
  }
}

/// The updates of each place as linked lists, in their order.
struct Lists {
  const int* first;
  const int* next;
};

/// The thread of the first update of a list combines all of it.
template <typename T, typename Targets>
__global__ void combine(const T* updates, T* out, const __grid_constant__ Targets targets,
                        FastDivisor row_elements, std::uint32_t elements,
                        ScatterReduction reduction, const Lists lists) {
  std::uint32_t update = thread_number();
  if (update >= elements) return;
  const std::uint32_t column = row_elements.divide(update);
  const std::int64_t target = targets(update);
  if (target < 0 || lists.first[target] != static_cast<int>(update)) return;
  T& place = out[target * row_elements.divisor() + column];
  T result = place;
  for (int each = static_cast<int>(update); each >= 0; each = lists.next[each])
    result =
        combined(reduction, result, updates[std::int64_t{each} * row_elements.divisor() + column]);
  place = result;
}

template <typename Targets>
class ScatterKernel final : public Kernel {
 public:
  ScatterKernel(const KernelRequest& request, Targets targets, std::int64_t row_elements)
      : targets_(targets),
        reduction_(scatter_reduction(request)),
        copy_(request.device.make_strided_copy({request.outputs.at(0).size_bytes()}, {1}, {1}, 1)) {
    const std::int64_t row_bytes = row_elements * element_bytes_of(request, request.inputs[0]);
    if (row_bytes == 0) return;
    const TensorView& updates = request.inputs.at(2);
    places_ = checked_count(request, request.inputs[0].size_bytes() / row_bytes);
    updates_ = checked_count(request, updates.size_bytes() / row_bytes);
    // What moves by bits takes wide words; what is computed, elements.
    word_bytes_ = reduction_ == ScatterReduction::none ? word_bytes_of(row_bytes)
                                                       : element_bytes_of(request, updates);
    words_ = checked_count(request, updates.size_bytes() / word_bytes_);
    row_words_ = FastDivisor(row_bytes / word_bytes_);
  }

  /// An int for each place, then one for each update that may follow another.
  std::int64_t scratch_bytes() const override {
    if (updates_ == 0) return 0;
    return graph::aligned(places_bytes()) +
           (reduction_ == ScatterReduction::none ? 0 : std::int64_t{updates_} * 4);
  }

  void run(const KernelIo& io) override {
    copy_->run(io.inputs[0].data, io.outputs[0].data, io.stream);
    if (updates_ == 0) return;
    targets_.set(io.inputs[1]);
    int* of_place = reinterpret_cast<int*>(io.scratch);
    check(cudaMemsetAsync(of_place, 0xFF, static_cast<std::size_t>(places_bytes()), stream_of(io)),
          "clearing memory");
    if (reduction_ == ScatterReduction::none)
      run_replace(io, of_place);
    else
      run_combine(io, of_place);
  }

 private:
  std::int64_t places_bytes() const { return std::int64_t{places_} * 4; }

  void run_replace(const KernelIo& io, int* last) const {
    launch(stream_of(io), a_thread_each(updates_), find_last<Targets>, targets_, updates_, last);
    visit_word(word_bytes_, [&]<typename Word>(Word) {
      launch(stream_of(io), a_thread_each(words_), replace<Word, Targets>,
             io.inputs[2].as<const Word>(), io.outputs[0].as<Word>(), targets_, row_words_, words_,
             last);
    });
  }

  void run_combine(const KernelIo& io, int* first) const {
    int* next = reinterpret_cast<int*>(io.scratch + graph::aligned(places_bytes()));
    launch(stream_of(io), a_thread_each(updates_), link<Targets>, targets_, updates_, first, next);
    launch(stream_of(io), a_thread_each(places_), sort_lists, first, places_, next);
    visit_type(io.inputs[2].type, AllNumbers{}, [&]<typename T>(T) {
      launch(stream_of(io), a_thread_each(words_), combine<T, Targets>, io.inputs[2].as<const T>(),
             io.outputs[0].as<T>(), targets_, row_words_, words_, reduction_, Lists{first, next});
    });
  }

  Targets targets_;
  ScatterReduction reduction_;
  std::unique_ptr<StridedCopy> copy_;
  std::uint32_t places_ = 0;
  std::uint32_t updates_ = 0;
  int word_bytes_ = 1;
  std::uint32_t words_ = 0;
  FastDivisor row_words_;
};

}  // namespace

std::unique_ptr<Kernel> make_scatter_elements(const KernelRequest& request) {
  return std::make_unique<ScatterKernel<ElementTargets>>(request, ElementTargets(request), 1);
}

std::unique_ptr<Kernel> make_scatter_nd(const KernelRequest& request) {
  return std::make_unique<ScatterKernel<SliceTargets>>(request, SliceTargets(request),
                                                       slice_indexing(request).elements);
}

}  // namespace autopar::runtime::cuda
