#include "runtime/kernels/cpu/onednn.h"

#include <omp.h>
#include <sys/mman.h>

#include <algorithm>
#include <functional>
#include <future>
#include <numeric>

#include "base/free_memory.h"
#include "base/out_of_memory.h"
#include "graph/arena.h"
#include "runtime/kernels/common/channels_last.h"

namespace autopar::runtime::cpu {
namespace {

class UnaryKernel final : public Kernel {
 public:
  explicit UnaryKernel(const dnnl::primitive_desc_base& description)
      : primitive_(description, {DNNL_ARG_SRC, DNNL_ARG_DST}) {}

  std::int64_t scratch_bytes() const override { return primitive_.scratch_bytes(); }
  void run(const KernelIo& io) override {
    primitive_.bind(DNNL_ARG_SRC, io.inputs[0].data);
    primitive_.bind(DNNL_ARG_DST, io.outputs[0].data);
    primitive_.run(io.scratch);
  }

 private:
  OnednnPrimitive primitive_;
};

}  // namespace

const dnnl::engine& onednn_engine() {
  const FragileCall call;
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

dnnl::memory::desc float_layout(const Shape& shape) {
  return {shape, dnnl::memory::data_type::f32, row_major_strides(shape)};
}

dnnl::memory::desc channels_last_layout(const Shape& shape) {
  Shape strides = row_major_strides(as_channels_last(shape));
  strides.insert(strides.begin() + 1, strides.back());
  strides.pop_back();
  return {shape, dnnl::memory::data_type::f32, strides};
}

dnnl::primitive_attr user_scratchpad() {
  const FragileCall call;
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

namespace {

/// What a primitive's code takes, with what others take meanwhile.
constexpr std::size_t room_for_code = std::size_t{32} << 20;

/// oneDNN 2.7 writes code into memory that it has asked for without a look at whether it got any.
/// What the system refuses now is refused before it asks.
void check_room_for_code() {
  void* const room =
      ::mmap(nullptr, room_for_code, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room != MAP_FAILED) {
    ::munmap(room, room_for_code);
    return;
  }
  const FreeMemory space = free_address_space();
  const auto there_are = static_cast<std::size_t>(space.bytes);
  if (there_are < room_for_code) throw OutOfMemory(room_for_code, there_are, space.of);
  throw OutOfMemory(room_for_code);
}

std::mutex onednn_mutex;
bool had_no_memory = false;  ///< whether some call of oneDNN got none; under the mutex

[[noreturn]] void fail_without_memory() {
  had_no_memory = true;
  throw OutOfMemory("oneDNN");
}

}  // namespace

OnednnScope::OnednnScope() : lock_(onednn_mutex) {
  if (had_no_memory)
    fail("oneDNN was out of memory before, and works no more in this process: start it again");
  check_room_for_code();
}

void rethrow_of_onednn() {
  try {
    throw;
  } catch (const dnnl::error& error) {
    if (error.status == dnnl_out_of_memory) fail_without_memory();
    throw;
  } catch (const std::future_error&) {  // what was to make the primitive had no memory
    fail_without_memory();
  } catch (const std::bad_alloc&) {
    had_no_memory = true;
    throw;
  }
}

OnednnPrimitive::OnednnPrimitive(const dnnl::primitive_desc_base& description,
                                 const std::vector<int>& arguments) {
  within_onednn([&] {
    stream_ = dnnl::stream(onednn_engine());
    primitive_ = dnnl::primitive(description.get());
    for (const int argument : arguments)
      make_argument(argument, description.query_md(dnnl::query::exec_arg_md, argument));
    const dnnl::memory::desc scratchpad = description.scratchpad_desc();
    make_argument(DNNL_ARG_SCRATCHPAD, scratchpad);
    scratch_bytes_ = graph::aligned(static_cast<std::int64_t>(scratchpad.get_size()));
  });
}

void OnednnPrimitive::make_argument(int argument, const dnnl::memory::desc& layout) {
  arguments_.emplace(argument, dnnl::memory(layout, onednn_engine(), nullptr));
}

void OnednnPrimitive::add(int argument, const dnnl::memory::desc& layout) {
  within_onednn([&] { make_argument(argument, layout); });
}

void OnednnPrimitive::bind(int argument, const void* data) {
  arguments_.at(argument).set_data_handle(const_cast<void*>(data));
}

void OnednnPrimitive::run(std::byte* scratch) {
  const FragileCall call;
  arguments_.at(DNNL_ARG_SCRATCHPAD).set_data_handle(scratch);
  primitive_.execute(stream_, arguments_);
  stream_.wait();
}

std::unique_ptr<Kernel> make_onednn_unary(const dnnl::primitive_desc_base& description) {
  return std::make_unique<UnaryKernel>(description);
}

namespace {

/// The copy of a small tensor between two layouts without blocks and padding; none of others:
/// oneDNN's is faster where there is much to move.
std::optional<StridedCopy> copy_between(const dnnl::memory::desc& from,
                                        const dnnl::memory::desc& to) {
  constexpr std::size_t most_bytes = 32 * 1024;
  if (to.get_size() > most_bytes) return {};
  const onednn::Layout in = onednn::layout_of(from);
  const onednn::Layout out = onednn::layout_of(to);
  const auto is_plain = [](const onednn::Layout& layout) {
    return !layout.dims.empty() && layout.inner_blocks.empty() && layout.padded_dims == layout.dims;
  };
  if (!is_plain(in) || !is_plain(out) || in.dims != out.dims || in.rest != out.rest) return {};
  std::vector<std::size_t> order(out.dims.size());  // as the dimensions lie in the output
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater{}, [&](std::size_t d) { return out.strides[d]; });
  const auto in_order = [&](const dnnl::memory::dims& numbers) {
    dnnl::memory::dims ordered;
    for (const std::size_t d : order) ordered.push_back(numbers[d]);
    return ordered;
  };
  return StridedCopy(in_order(out.dims), in_order(in.strides), in_order(out.strides),
                     static_cast<int>(dnnl::memory::data_type_size(onednn::type_of(to))));
}

}  // namespace

Reordering::Reordering(const dnnl::memory::desc& from, const dnnl::memory::desc& to) {
  if (from == to) return;
  bytes_ = graph::aligned(static_cast<std::int64_t>(to.get_size()));
  copy_ = copy_between(from, to);
  if (copy_) return;
  const auto description = within_onednn([&]() -> dnnl::reorder::primitive_desc {
    return {onednn_engine(), from, onednn_engine(), to, user_scratchpad()};
  });
  primitive_.emplace(description, std::vector<int>{DNNL_ARG_FROM, DNNL_ARG_TO});
}

void Reordering::run(const void* from, void* to, std::byte* scratch) {
  if (copy_) {
    copy_->run(static_cast<const std::byte*>(from), static_cast<std::byte*>(to),
               omp_get_max_threads());
    return;
  }
  primitive_->bind(DNNL_ARG_FROM, from);
  primitive_->bind(DNNL_ARG_TO, to);
  primitive_->run(scratch);
}

namespace {

void append_layout(std::string& text, const dnnl::memory::desc& described) {
  const onednn::Layout layout = onednn::layout_of(described);
  const auto append = [&](std::int64_t number) { text += std::to_string(number) + ' '; };
  text += layout.rest + ' ';
  std::size_t first = 0;
  while (first + 2 < layout.dims.size() && layout.dims[first] == 1 &&
         layout.padded_dims[first] == 1)
    ++first;
  for (std::size_t d = first; d < layout.dims.size(); ++d)
    for (const std::int64_t number :
         {layout.dims[d], layout.padded_dims[d], layout.padded_offsets[d], layout.strides[d]})
      append(number);
  for (std::size_t i = 0; i < layout.inner_blocks.size(); ++i) {
    append(layout.inner_dims[i] - static_cast<std::int64_t>(first));
    append(layout.inner_blocks[i]);
  }
}

}  // namespace

std::string form_of(const dnnl::memory::desc& from, const dnnl::memory::desc& to) {
  std::string text;
  append_layout(text, from);
  text += "to ";
  append_layout(text, to);
  return text;
}

std::shared_ptr<std::byte> reordered_copy(Device& device, const dnnl::memory::desc& from,
                                          const void* data, const dnnl::memory::desc& to) {
  Reordering reordering(from, to);
  if (!reordering.is_needed()) return nullptr;
  auto copy = device.allocate(reordering.bytes());
  const auto scratch = device.allocate(reordering.scratch_bytes());
  reordering.run(data, copy.get(), scratch.get());
  return copy;
}

std::shared_ptr<std::byte> reordered_copy(Device& device, const dnnl::memory::desc& from,
                                          const graph::Tensor& matrix,
                                          const dnnl::memory::desc& to) {
  constexpr std::int64_t part_bytes = 1 << 20;
  constexpr std::int64_t largest_block = 64;
  if (from == to) return nullptr;
  const dnnl::memory::dims strides = onednn::layout_of(from).strides;
  dnnl::memory::dims dims = onednn::dims_of(from);
  const std::size_t columns = dims.size() - 1;
  const std::size_t outer = strides[columns - 1] >= strides[columns] ? columns - 1 : columns;
  const std::int64_t extent = dims[outer];
  const std::int64_t line_bytes = matrix.size_bytes() / std::max<std::int64_t>(extent, 1);
  const std::int64_t blocks = part_bytes / largest_block / std::max<std::int64_t>(line_bytes, 1);
  const std::int64_t most = largest_block * std::max<std::int64_t>(blocks, 1);

  auto copy = device.allocate(graph::aligned(static_cast<std::int64_t>(to.get_size())));
  const auto part = device.allocate(std::min(most, extent) * line_bytes);
  dnnl::memory::dims offsets(dims.size(), 0);
  for (; offsets[outer] < extent; offsets[outer] += most) {
    dims[outer] = std::min(most, extent - offsets[outer]);
    const dnnl::memory::desc part_to = to.submemory_desc(dims, offsets, /*allow_empty=*/true);
    if (part_to.is_zero()) return nullptr;
    matrix.read(offsets[outer] * line_bytes,
                {part.get(), static_cast<std::size_t>(dims[outer] * line_bytes)});
    Reordering reordering({dims, onednn::type_of(from), strides}, part_to);
    const auto scratch = device.allocate(reordering.scratch_bytes());
    reordering.run(part.get(), copy.get(), scratch.get());
  }
  return copy;
}

}  // namespace autopar::runtime::cpu
