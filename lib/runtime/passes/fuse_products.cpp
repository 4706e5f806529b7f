#include <optional>
#include <string>

#include "runtime/passes/layout.h"

/// What goes into a FusedMatMul: Transposes, a bias, an activation, permutations.
namespace autopar::runtime::passes {
namespace {

/// The permutation without the swap of the last two dimensions that the product will do itself;
/// nullopt where taking the swap out leaves no cheaper copy.
std::optional<Permutation> without_swap(const Matcher& matcher, const Node& transpose) {
  const std::size_t rank = matcher.shape(transpose.inputs[0]).size();
  if (rank < 2) return std::nullopt;
  Permutation permutation = permutation_of(transpose, rank);
  std::swap(permutation[rank - 1], permutation[rank - 2]);
  const bool keeps_rows = permutation[rank - 1] == static_cast<std::int64_t>(rank) - 1;
  return keeps_rows ? std::optional(permutation) : std::nullopt;
}

/// Replaces the operand by one with its last two dimensions swapped, where that is cheaper.
bool take_transpose(const Matcher& matcher, Graph& graph, ValueId& operand) {
  if (matcher.maker(operand, "Transpose") == nullptr) return false;
  Node& transpose = graph.node(matcher.producer(operand));
  const auto permutation = without_swap(matcher, transpose);
  if (!permutation) return false;
  const bool is_identity = std::ranges::is_sorted(*permutation);
  const bool reads_constant = is_identity && graph.is_constant(transpose.inputs[0]);
  if (!matcher.is_read_once(operand) && !reads_constant) return false;
  if (is_identity) {
    operand = transpose.inputs[0];
    return true;
  }
  transpose.attributes["perm"] = *permutation;
  Shape& shape = graph.value(operand).shape;
  std::swap(shape[shape.size() - 1], shape[shape.size() - 2]);
  return true;
}

/// A Gemm that scales nothing and adds at most a row is a product with bias.
std::optional<Node> product_of_gemm(const Pass& pass, const Node& gemm) {
  const bool has_addend = has_input(gemm, 2);
  const Shape row{pass.shape(gemm.outputs[0]).back()};
  if (is_scaled(gemm) || (has_addend && pass.shape(gemm.inputs[2]) != row)) return std::nullopt;
  Node product{gemm.name, "FusedMatMul", internal_domain, gemm.inputs, gemm.outputs, {}};
  if (!has_addend) product.inputs.resize(2);
  for (const char* flag : {"transA", "transB"})
    if (gemm.int_attribute(flag, 0) != 0) product.attributes[flag] = std::int64_t{1};
  return pass.if_it_runs(std::move(product));
}

/// A constant with one element a column of a product of this shape.
bool is_bias(const Matcher& matcher, ValueId id, const Shape& product) {
  if (!matcher.is_constant(id)) return false;
  const Shape& shape = matcher.shape(id);
  return !shape.empty() && shape.back() == product.back() && shape.back() > 0 &&
         graph::num_elements(shape) == product.back() && shape.size() <= product.size();
}

ValueId as_vector(Graph& graph, ValueId bias) {
  const graph::Tensor& tensor = *graph.value(bias).constant;
  if (tensor.shape().size() == 1) return bias;
  const graph::Tensor vector =
      (tensor.is_contiguous() ? tensor : tensor.contiguous_copy()).reshaped({tensor.elements()});
  return graph.add_constant(graph.value(bias).name, vector);
}

/// The Add as the product with bias; the old product is dead then.
std::optional<Node> product_with_bias(const Pass& pass, const Node& add, std::size_t operand) {
  const ValueId product = add.inputs[operand];
  const ValueId bias = add.inputs[1 - operand];
  const Node* matmul = pass.maker(product);
  if (matmul == nullptr || !pass.is_read_once(product) || !pass.is_product(*matmul) ||
      matmul->inputs.size() != 2 || !is_bias(pass, bias, pass.shape(product)))
    return std::nullopt;
  Node fused = *matmul;
  fused.name = add.name;
  fused.op_type = "FusedMatMul";
  fused.domain = internal_domain;
  fused.inputs.push_back(as_vector(pass.graph, bias));
  fused.outputs = add.outputs;
  return pass.if_it_runs(std::move(fused));
}

/// The name in the attribute `activation`; empty for other operators.
std::string activation_name(const Node& node) {
  if (is_onnx(node, "Relu")) return "Relu";
  if (!is_onnx(node, "Gelu")) return {};
  return node.string_attribute("approximate", "none") == "tanh" ? "GeluTanh" : "Gelu";
}

/// The activation as the product that takes it in. A Reshape between them moves behind both.
std::optional<Node> product_with_activation(Pass& pass, const Node& activation) {
  const auto only_maker = [&](ValueId value) {
    return pass.is_read_once(value) ? pass.maker(value) : nullptr;
  };
  const std::string name = activation_name(activation);
  const Node* before = name.empty() ? nullptr : only_maker(activation.inputs[0]);
  const bool is_reshaped = before != nullptr && is_onnx(*before, "Reshape");
  const Node* product = is_reshaped ? only_maker(before->inputs[0]) : before;
  if (product == nullptr || !pass.is_product(*product) || product->has_attribute("activation") ||
      product->has_attribute("out_perm"))
    return std::nullopt;
  Node fused = *product;
  fused.domain = internal_domain;
  fused.op_type = "FusedMatMul";
  fused.attributes["activation"] = name;
  if (!pass.can_run(fused)) return std::nullopt;
  Node last = is_reshaped ? *before : fused;
  last.name = activation.name;
  last.outputs = activation.outputs;
  if (is_reshaped) pass.graph.node(pass.producer(before->inputs[0])) = std::move(fused);
  return last;
}

/// Reads the operand from before its Transposes.
bool permute(const Pass& pass, Node& product, std::size_t input, NodeId root,
             Insertions& inserted) {
  const char* flag = input == 0 ? "transA" : "transB";
  const char* name = input == 0 ? "a_perm" : "b_perm";
  const auto traced = trace(pass, product.inputs[input], false);
  for (auto each = traced.rbegin(); each != traced.rend(); ++each) {
    if (!each->is_moved || each->factor != 1) continue;
    Layout layout = each->layout;
    if (product.int_attribute(flag, 0) != 0) layout.swap_last_two();
    auto stored = layout.stored(pass.shape(each->source));
    if (!stored) continue;
    product.attributes.erase(flag);
    product.inputs[input] =
        inserted.reshape_before(root, pass.graph, each->source, stored->shape, name);
    auto swapped = *stored;
    std::iter_swap(swapped.permutation.rbegin(), swapped.permutation.rbegin() + 1);
    if (swapped.is_identity())
      product.attributes[flag] = std::int64_t{1};
    else
      set_permutation(product, name, *stored);
    return true;
  }
  return false;
}

bool fuse_permutation(Pass& pass, Node product, bool with_operands, bool with_result) {
  const ValueId result = product.outputs[0];
  const Tail tail = with_result ? find_tail(pass, result, pass.shape(result), pass.type(result))
                                : Tail{result, stored_as_it_is(pass.shape(result))};
  const NodeId root = pass.producer(tail.value);
  Insertions inserted;
  bool is_changed = tail.value != result;
  for (const std::size_t input : {0U, 1U})
    if (with_operands) is_changed |= permute(pass, product, input, root, inserted);
  if (!is_changed) return false;
  product.domain = internal_domain;
  product.op_type = "FusedMatMul";
  set_permutation(product, "out_perm", tail.stored);
  return put(pass, std::move(product), tail, std::move(inserted));
}

}  // namespace

void fuse_transposes(Graph& graph, const KernelTable& kernels) {
  if (kernels.find(internal_domain, "FusedMatMul") == nullptr) return;
  const Matcher matcher(graph);
  for (Node& node : graph.nodes) {
    if (!is_onnx(node, "MatMul") || !matcher.is_product(node)) continue;
    const bool a = take_transpose(matcher, graph, node.inputs[0]);
    const bool b = take_transpose(matcher, graph, node.inputs[1]);
    if (!a && !b) continue;
    node.domain = internal_domain;
    node.op_type = "FusedMatMul";
    if (a) node.attributes["transA"] = std::int64_t{1};
    if (b) node.attributes["transB"] = std::int64_t{1};
  }
}

void fuse_biases(Graph& graph, const KernelTable& kernels) {
  rewrite_nodes(graph, kernels, [](Pass& pass, const Node& node) -> std::optional<Node> {
    if (is_onnx(node, "Gemm")) return product_of_gemm(pass, node);
    if (!is_onnx(node, "Add")) return std::nullopt;
    auto fused = product_with_bias(pass, node, 0);
    return fused ? fused : product_with_bias(pass, node, 1);
  });
}

void fuse_product_activations(Graph& graph, const KernelTable& kernels) {
  rewrite_nodes(graph, kernels, product_with_activation);
}

void fuse_permutations(Graph& graph, const KernelTable& kernels) {
  Pass pass(graph, kernels);
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node node = graph.nodes[n];
    if (!pass.is_product(node)) continue;
    if (!fuse_permutation(pass, node, true, true) && !fuse_permutation(pass, node, true, false))
      fuse_permutation(pass, node, false, true);
  }
  pass.insertions.apply(graph);
}

}  // namespace autopar::runtime::passes
