#include "runtime/kernels/cpu/onednn.h"

#include "graph/arena.h"

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
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

dnnl::memory::desc float_layout(const Shape& shape) {
  return {shape, dnnl::memory::data_type::f32, row_major_strides(shape)};
}

dnnl::primitive_attr user_scratchpad() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

std::unique_lock<std::mutex> onednn_lock() {
  static std::mutex mutex;
  return std::unique_lock(mutex);
}

OnednnPrimitive::OnednnPrimitive(const dnnl::primitive_desc_base& description,
                                 const std::vector<int>& arguments)
    : stream_(onednn_engine()) {
  {
    const auto lock = onednn_lock();
    primitive_ = dnnl::primitive(description.get());
  }
  for (const int argument : arguments)
    add(argument, description.query_md(dnnl::query::exec_arg_md, argument));
  const dnnl::memory::desc scratchpad = description.scratchpad_desc();
  add(DNNL_ARG_SCRATCHPAD, scratchpad);
  scratch_bytes_ = graph::aligned(static_cast<std::int64_t>(scratchpad.get_size()));
}

void OnednnPrimitive::add(int argument, const dnnl::memory::desc& layout) {
  arguments_.emplace(argument, dnnl::memory(layout, onednn_engine(), nullptr));
}

void OnednnPrimitive::bind(int argument, const void* data) {
  arguments_.at(argument).set_data_handle(const_cast<void*>(data));
}

void OnednnPrimitive::run(std::byte* scratch) {
  arguments_.at(DNNL_ARG_SCRATCHPAD).set_data_handle(scratch);
  primitive_.execute(stream_, arguments_);
  stream_.wait();
}

std::unique_ptr<Kernel> make_onednn_unary(const dnnl::primitive_desc_base& description) {
  return std::make_unique<UnaryKernel>(description);
}

}  // namespace autopar::runtime::cpu
