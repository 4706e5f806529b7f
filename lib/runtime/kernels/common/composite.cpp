#include "runtime/kernels/common/composite.h"

#include <algorithm>

#include "graph/arena.h"
#include "runtime/kernels/common/kernel_arguments.h"

namespace autopar::runtime {

using Part = Composite::Part;

class Composite::Steps final : public Kernel {
 public:
  struct Step {
    std::shared_ptr<Kernel> kernel;
    std::vector<Part> inputs;
    std::vector<Part> outputs;
    std::vector<TensorView> input_views = views_of(inputs);
    std::vector<TensorView> output_views = views_of(outputs);
  };
  struct Constant {
    graph::Tensor tensor;
    std::shared_ptr<std::byte> memory;  ///< of the device, where it cannot read the host's

    std::byte* host_data() const { return const_cast<std::byte*>(tensor.data()); }
  };

  std::int64_t scratch_bytes() const override { return values_bytes + kernels_bytes; }

  void run(const KernelIo& io) override {
    for (Step& step : steps) {
      point(step.input_views, step.inputs, io);
      point(step.output_views, step.outputs, io);
      step.kernel->run({step.input_views, step.output_views, io.scratch + values_bytes, io.stream});
    }
  }

  bool reads(std::size_t input) const override {
    for (const Step& step : steps)
      for (std::size_t i = 0; i < step.inputs.size(); ++i)
        if (step.inputs[i].place == Part::Place::input && step.inputs[i].index == input &&
            step.kernel->reads(i))
          return true;
    return false;
  }

  /// Where a kernel that is made can read the part: null of what no one knows yet.
  std::byte* host_data(const Part& part, const KernelRequest& request) const {
    if (part.place == Part::Place::constant) return at(constants[part.index].host_data(), part);
    return part.place == Part::Place::input ? at(request.inputs[part.index].data, part) : nullptr;
  }

  std::vector<Step> steps;
  std::vector<Constant> constants;
  std::vector<std::unique_ptr<graph::Node>> nodes;  ///< what kernels were made from
  std::int64_t values_bytes = 0;
  std::int64_t kernels_bytes = 0;

 private:
  static std::vector<TensorView> views_of(const std::vector<Part>& parts) {
    std::vector<TensorView> views;
    for (const Part& part : parts) views.push_back({part.type, part.shape, nullptr});
    return views;
  }

  static std::byte* at(std::byte* base, const Part& part) {
    return base == nullptr ? nullptr : base + part.byte_offset;
  }

  std::byte* base_of(const Part& part, const KernelIo& io) const {
    switch (part.place) {
      case Part::Place::input:
        return io.inputs[part.index].data;  // null of what no step reads
      case Part::Place::output:
        return io.outputs[part.index].data;
      case Part::Place::scratch:
        return io.scratch;
      case Part::Place::constant: {
        const Constant& constant = constants[part.index];
        return constant.memory ? constant.memory.get() : constant.host_data();
      }
      case Part::Place::none:
        break;
    }
    return nullptr;
  }

  void point(std::vector<TensorView>& views, const std::vector<Part>& parts,
             const KernelIo& io) const {
    for (std::size_t i = 0; i < parts.size(); ++i)
      views[i].data = at(base_of(parts[i], io), parts[i]);
  }
};

namespace {

class CopyStep final : public Kernel {
 public:
  explicit CopyStep(std::unique_ptr<StridedCopies> copies) : copy_(std::move(copies)) {}
  void run(const KernelIo& io) override {
    copy_.run(io.inputs[0].data, io.outputs[0].data, io.stream);
  }

 private:
  StridedCopy copy_;
};

}  // namespace

Composite::Composite(const KernelRequest& request)
    : request_(request), steps_(std::make_unique<Steps>()) {}
Composite::~Composite() = default;

Device& Composite::device() const { return request_.device; }

bool Composite::has_input(std::size_t i) const { return is_given(request_.inputs, i); }
bool Composite::has_output(std::size_t i) const { return is_given(request_.outputs, i); }

Part Composite::input(std::size_t i) const {
  if (!has_input(i)) return {};
  return {Part::Place::input, i, 0, request_.inputs[i].type, request_.inputs[i].shape};
}

Part Composite::output(std::size_t i) const {
  if (!has_output(i)) return {};
  return {Part::Place::output, i, 0, request_.outputs[i].type, request_.outputs[i].shape};
}

Part Composite::temporary(DataType type, const Shape& shape) {
  Part part{Part::Place::scratch, 0, steps_->values_bytes, type, shape};
  steps_->values_bytes += graph::aligned(graph::bytes_of(type, graph::num_elements(shape)));
  return part;
}

Part Composite::constant(const graph::Tensor& tensor) {
  Steps::Constant held{tensor.contiguous_copy(), nullptr};
  if (!device().shares_host_memory() && held.tensor.size_bytes() > 0) {
    held.memory = device().allocate(held.tensor.size_bytes());
    device().write(held.memory.get(), held.tensor.bytes());
  }
  steps_->constants.push_back(std::move(held));
  return {Part::Place::constant, steps_->constants.size() - 1, 0, tensor.type(), tensor.shape()};
}

Part Composite::reshaped(Part part, Shape shape) {
  require(graph::num_elements(shape) == graph::num_elements(part.shape),
          "a reshape keeps the number of elements");
  part.shape = std::move(shape);
  return part;
}

Part Composite::from_element(Part part, std::int64_t element, Shape shape) {
  part.byte_offset += graph::bytes_of(part.type, element);
  part.shape = std::move(shape);
  return part;
}

std::shared_ptr<Kernel> Composite::make(std::string_view domain, std::string_view op_type,
                                        std::map<std::string, graph::Attribute> attributes,
                                        const std::vector<Part>& inputs,
                                        const std::vector<Part>& outputs) {
  const KernelEntry* entry = device().kernels().find(domain, op_type);
  if (entry == nullptr)
    fail("node '{}': {} needs {}, which has no {} kernel", request_.node.name,
         qualified_op_type(request_.node), op_type, device().kernels().device);
  auto& node = steps_->nodes.emplace_back(std::make_unique<graph::Node>());
  node->name = request_.node.name;
  node->op_type = op_type;
  node->domain = domain;
  node->attributes = std::move(attributes);
  KernelRequest request{*node, {}, {}, device(), request_.collectives};
  for (const Part& part : inputs)
    request.inputs.push_back({part.type, part.shape, steps_->host_data(part, request_)});
  for (const Part& part : outputs) request.outputs.push_back({part.type, part.shape, nullptr});
  return entry->make(request);
}

void Composite::append(std::shared_ptr<Kernel> kernel, const std::vector<Part>& inputs,
                       const std::vector<Part>& outputs) {
  steps_->kernels_bytes = std::max(steps_->kernels_bytes, kernel->scratch_bytes());
  steps_->steps.push_back({std::move(kernel), inputs, outputs});
}

void Composite::add(std::string_view domain, std::string_view op_type,
                    std::map<std::string, graph::Attribute> attributes,
                    const std::vector<Part>& inputs, const std::vector<Part>& outputs) {
  append(make(domain, op_type, std::move(attributes), inputs, outputs), inputs, outputs);
}

void Composite::add_copy(const Part& from, const Part& to, CopyLayout layout) {
  layout.element_bytes = graph::bits_of(from.type) / 8;
  require(layout.element_bytes > 0, "copied elements have whole bytes");
  append(std::make_shared<CopyStep>(device().make_strided_copies({std::move(layout)})), {from},
         {to});
}

std::unique_ptr<Kernel> Composite::finish() { return std::move(steps_); }

std::unique_ptr<Kernel> make_fixed(const KernelRequest& request, const graph::Tensor& tensor) {
  require(tensor.size_bytes() == request.outputs.at(0).size_bytes(),
          "a fixed tensor fills its output");
  Composite composite(request);
  Part bytes = composite.constant(tensor);
  bytes.type = DataType::uint8;
  composite.add_copy(bytes, composite.output(0), {{tensor.size_bytes()}, {1}, {1}});
  return composite.finish();
}

}  // namespace autopar::runtime
