#include "graph/onnx/operands/check_results.h"

#include <algorithm>
#include <map>

#include "base/checked.h"
#include "graph/onnx/attribute_proto.h"
#include "graph/onnx/operands/operand_form.h"
#include "graph/own_operators.h"

namespace autopar::graph {
namespace {

// Inputs that an operator needs are there: ONNX's own check has seen to it.

/// Checks a convolution whose weights are that input; `in_weights` gives the data's channels as the
/// weights tell them.
void check_channels(const NodeInContext& context, std::size_t weights,
                    std::int64_t (*in_weights)(const Shape& weight, std::int64_t groups)) {
  const onnx::NodeProto& node = context.node;
  const Shape& data = context.inputs[0]->shape;
  const Shape& weight = context.inputs[weights]->shape;
  if (data.size() < 3 || weight.size() != data.size())
    fail("data {} and weights {} do not fit", to_string(data), to_string(weight));
  const std::int64_t groups = int_or(node, "group", 1);
  if (data[1] != in_weights(weight, groups) || weight[0] % groups != 0)
    fail("data {} and weights {} in {} group(s) do not fit", to_string(data), to_string(weight),
         groups);
  const auto* kernel = find_attribute(node, "kernel_shape");
  if (kernel != nullptr &&
      !std::equal(kernel->ints().begin(), kernel->ints().end(), weight.begin() + 2, weight.end()))
    fail("its weights {} are not of its attribute 'kernel_shape'", to_string(weight));
}

std::int64_t channels_in_groups(const Shape& weight, std::int64_t groups) {
  return checked_multiply(weight[1], groups, "the channels of its weights");
}

void check_conv(const NodeInContext& context, const std::vector<OutputType>&) {
  check_channels(context, 1, channels_in_groups);
}

void check_qlinear_conv(const NodeInContext& context, const std::vector<OutputType>&) {
  check_channels(context, 3, channels_in_groups);
}

/// The offsets are of each place of the result.
void check_deform_conv(const NodeInContext& context, const std::vector<OutputType>& outputs) {
  check_channels(context, 1, channels_in_groups);
  const Shape& offsets = context.inputs[2]->shape;
  const std::int64_t groups = attribute_or_default(context, "offset_group");
  const auto& to = outputs[0].shape;
  if (groups <= 0 || context.inputs[0]->shape[1] % groups != 0 || !to ||
      to->size() != offsets.size() || !std::equal(to->begin() + 2, to->end(), offsets.begin() + 2))
    fail("its offsets {} are not of its result {}", to_string(offsets),
         to ? to_string(*to) : "of unknown shape");
}

/// Inference knows no places where `output_shape` is smaller than the data.
void check_conv_transpose(const NodeInContext& context, const std::vector<OutputType>& outputs) {
  check_channels(context, 1, [](const Shape& weight, std::int64_t) { return weight[0]; });
  if (outputs[0].shape && outputs[0].shape->size() != context.inputs[0]->shape.size())
    fail("its attribute 'output_shape' does not fit its data {}",
         to_string(context.inputs[0]->shape));
}

/// GRU, LSTM and RNN: inference believes the attribute, kernels the weights.
void check_recurrent(const NodeInContext& context, const std::vector<OutputType>&) {
  const auto* hidden = find_attribute(context.node, "hidden_size");
  const Shape& weights = context.inputs[2]->shape;
  if (hidden != nullptr && (weights.size() != 3 || hidden->i() != weights[2]))
    fail("its attribute 'hidden_size' is {}, but its weights R are {}", hidden->i(),
         to_string(weights));
  if (const auto* clip = find_attribute(context.node, "clip"); clip != nullptr && !(clip->f() > 0))
    fail("its attribute 'clip' is {}, but must be above 0", clip->f());
}

void check_reshape(const NodeInContext& context, const std::vector<OutputType>& outputs) {
  const Shape& from = context.inputs[0]->shape;
  const std::optional<Shape>& to = outputs[0].shape;
  if (to && num_elements(from) != num_elements(*to))
    fail("data {} cannot be reshaped to {}", to_string(from), to_string(*to));
}

[[noreturn]] void fail_fit(const NodeInContext& context) {
  std::string shapes;
  for (const Value* value : context.inputs)
    if (value != nullptr) shapes += (shapes.empty() ? "" : ", ") + to_string(value->shape);
  fail("its inputs do not fit together: {}", shapes);
}

/// The attribute, counted from the front; fails where it names no dimension.
std::size_t axis_of(const NodeInContext& context, const Shape& shape, std::string_view name) {
  const auto rank = std::ssize(shape);
  const std::int64_t axis = attribute_or_default(context, name);
  if (axis < -rank || axis >= rank)
    fail("its attribute '{}' is {}, but its data has {} dimension(s)", name, axis, rank);
  return static_cast<std::size_t>(axis < 0 ? axis + rank : axis);
}

void check_concat(const NodeInContext& context, const std::vector<OutputType>&) {
  const Shape& first = context.inputs[0]->shape;
  const std::size_t axis = axis_of(context, first, "axis");
  for (const Value* input : context.inputs) {
    Shape shape = input->shape;
    if (shape.size() != first.size()) fail_fit(context);
    shape[axis] = first[axis];
    if (shape != first) fail_fit(context);
  }
}

/// The parts make up the data: inference trusts attribute `num_outputs`, however many outputs the
/// node has.
void check_split(const NodeInContext& context, const std::vector<OutputType>& outputs) {
  const Shape& data = context.inputs[0]->shape;
  const std::size_t axis = axis_of(context, data, "axis");
  std::int64_t left = data[axis];
  for (const OutputType& part : outputs) {
    if (!part.shape) return;
    left -= part.shape->at(axis);
    if (left < 0) break;
  }
  if (left != 0)
    fail("its {} outputs do not make up the {} elements of its data along dimension {}",
         outputs.size(), data[axis], axis);
}

/// Scales and zero points of a stack of matrices are of each matrix, whose batch is that of the
/// stack and, for what is done to the product, of the product.
void check_of_matrices(const NodeInContext& context, std::size_t matrices, std::size_t input,
                       const Shape* product) {
  if (input >= context.inputs.size() || context.inputs[input] == nullptr) return;
  const Shape& given = context.inputs[input]->shape;
  if (given.size() <= 2 || num_elements(given) == 1) return;
  const Shape& of = context.inputs[matrices]->shape;
  const auto has_batch_of = [&](const Shape& shape) {
    return shape.size() == given.size() &&
           std::equal(given.begin(), given.end() - 2, shape.begin());
  };
  if (!has_batch_of(of) || (product != nullptr && !has_batch_of(*product)))
    fail("its input '{}', {}, has another batch than its matrices {}{}",
         context.schema->inputs()[input].GetName(), to_string(given), to_string(of),
         product == nullptr ? "" : " or than its product " + to_string(*product));
}

void check_matmul_integer(const NodeInContext& context, const std::vector<OutputType>&) {
  check_of_matrices(context, 0, 2, nullptr);
  check_of_matrices(context, 1, 3, nullptr);
}

void check_qlinear_matmul(const NodeInContext& context, const std::vector<OutputType>& outputs) {
  const Shape* product = outputs[0].shape ? &*outputs[0].shape : nullptr;
  check_of_matrices(context, 0, 1, product);
  check_of_matrices(context, 0, 2, nullptr);
  check_of_matrices(context, 3, 4, product);
  check_of_matrices(context, 3, 5, nullptr);
  check_of_matrices(context, 0, 6, product);
  check_of_matrices(context, 0, 7, product);
}

/// Inference takes 32 bits of the axis.
void check_one_hot(const NodeInContext& context, const std::vector<OutputType>&) {
  const std::int64_t axis = attribute_or_default(context, "axis");
  const std::int64_t rank = std::ssize(context.inputs[0]->shape) + 1;
  if (axis < -rank || axis >= rank)
    fail("its attribute 'axis' is {}, but its result has {} dimension(s)", axis, rank);
}

/// GatherElements and ScatterElements: indices lie within the data but along the axis.
void check_elements(const NodeInContext& context, const std::vector<OutputType>&) {
  const Shape& data = context.inputs[0]->shape;
  const Shape& indices = context.inputs[1]->shape;
  const std::size_t axis = axis_of(context, data, "axis");
  if (indices.size() != data.size()) fail_fit(context);
  for (std::size_t d = 0; d < data.size(); ++d)
    if (d != axis && indices[d] > data[d]) fail_fit(context);
}

/// GatherND and ScatterND: slices of the data, of each batch of it, by the indices' last dimension.
void check_slices(const NodeInContext& context, const std::vector<OutputType>&) {
  const Shape& data = context.inputs[0]->shape;
  const Shape& indices = context.inputs[1]->shape;
  const std::int64_t batches = attribute_or_default(context, "batch_dims");
  const std::int64_t depth = indices.back();
  if (batches < 0 || batches >= std::ssize(indices) || depth > std::ssize(data) - batches ||
      !std::equal(data.begin(), data.begin() + batches, indices.begin()))
    fail_fit(context);
  if (context.inputs.size() < 3) return;
  Shape slices(indices.begin(), indices.end() - 1);
  slices.insert(slices.end(), data.begin() + batches + depth, data.end());
  if (context.inputs[2]->shape != slices) fail_fit(context);
}

/// The update is as the cache but along the axis, where it is no longer.
void check_tensor_scatter(const NodeInContext& context, const std::vector<OutputType>&) {
  const Shape& cache = context.inputs[0]->shape;
  Shape update = context.inputs[1]->shape;
  const std::size_t axis = axis_of(context, cache, "axis");
  if (update.size() != cache.size() || axis == 0 || update[axis] > cache[axis]) fail_fit(context);
  update[axis] = cache[axis];
  if (update != cache) fail_fit(context);
}

void check_affine_grid(const NodeInContext& context, const std::vector<OutputType>& outputs) {
  const std::int64_t batch = context.inputs[0]->shape[0];
  const auto& grid = outputs[0].shape;
  if (grid && (grid->empty() || grid->front() != batch))
    fail("its size {} is not of the {} matrices of theta", to_string(*grid), batch);
}

/// Channels are those of the image times what a block has.
void check_col_to_im(const NodeInContext& context, const std::vector<OutputType>& outputs) {
  const Shape& columns = context.inputs[0]->shape;
  const auto& image = outputs[0].shape;
  const auto& block = context.inputs[2]->constant;
  if (!image || !block || !block->has_data()) return;
  const std::int64_t elements = checked_product(block->to_int64s(), "its input 'block_shape'");
  if (elements <= 0 || image->size() < 2 ||
      checked_multiply((*image)[1], elements, "the elements of its blocks") != columns[1])
    fail("blocks of {} elements do not fit its input of {}", elements, to_string(columns));
}

/// Each column has bytes of whole blocks, and a zero point a block: packed in bytes as the weights
/// are, or numbers of A's type.
void check_matmul_n_bits(const NodeInContext& context, const std::vector<OutputType>&) {
  const onnx::NodeProto& node = context.node;
  const std::int64_t bits = int_or(node, "bits", 4);
  const std::int64_t block = int_or(node, "block_size", 0);
  const std::int64_t depth = int_or(node, "K", 0);
  const std::int64_t columns = int_or(node, "N", 0);
  if ((bits != 2 && bits != 4 && bits != 8) || block < 8 || block > largest_block || depth < 1 ||
      columns < 1)
    fail("its attributes make no sense: N {}, K {}, bits {}, block_size {}", columns, depth, bits,
         block);
  const std::int64_t blocks = depth / block + (depth % block == 0 ? 0 : 1);
  const auto check = [&](const char* name, std::size_t input, std::int64_t a_column) {
    const Shape& shape = context.inputs[input]->shape;
    if (num_elements(shape) !=
        checked_multiply(columns, a_column, "what a column of its weights has"))
      fail("its input '{}' is {}, but its {} columns have {} each", name, to_string(shape), columns,
           a_column);
  };
  check("B", 1, blocks * ((block * bits + 7) / 8));
  if (context.inputs.size() <= 3 || context.inputs[3] == nullptr) return;
  const bool is_packed = context.inputs[3]->type != context.inputs[0]->type;
  check("zero_points", 3, is_packed ? (blocks * bits + 7) / 8 : blocks);
}

}  // namespace

void check_results(const NodeInContext& context, const std::vector<OutputType>& outputs) {
  using Check = void (*)(const NodeInContext&, const std::vector<OutputType>&);
  static const std::map<std::string_view, Check> table = {
      {"AffineGrid", check_affine_grid},
      {"Col2Im", check_col_to_im},
      {"Concat", check_concat},
      {"Conv", check_conv},
      {"ConvInteger", check_conv},
      {"ConvTranspose", check_conv_transpose},
      {"DeformConv", check_deform_conv},
      {"GRU", check_recurrent},
      {"GatherElements", check_elements},
      {"GatherND", check_slices},
      {"LSTM", check_recurrent},
      {"MatMulInteger", check_matmul_integer},
      {"OneHot", check_one_hot},
      {"QLinearConv", check_qlinear_conv},
      {"QLinearMatMul", check_qlinear_matmul},
      {"RNN", check_recurrent},
      {"Reshape", check_reshape},
      {"ScatterElements", check_elements},
      {"ScatterND", check_slices},
      {"Split", check_split},
      {"TensorScatter", check_tensor_scatter},
  };
  if (context.node.domain() == "com.microsoft" && context.node.op_type() == "MatMulNBits")
    return check_matmul_n_bits(context, outputs);
  const auto found = table.find(context.node.op_type());
  if (!context.node.domain().empty() || found == table.end()) return;
  found->second(context, outputs);
}

}  // namespace autopar::graph
