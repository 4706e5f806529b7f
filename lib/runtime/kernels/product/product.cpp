#include "runtime/kernels/product/product.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "runtime/kernels/common/kernel_arguments.h"
#include "runtime/kernels/common/strides.h"
#include "runtime/kernels/product/kernels.h"

namespace autopar::runtime {

namespace {

void swap_rows_and_columns(StridedShape& operand) {
  const std::size_t columns = operand.dims.size() - 1;
  std::swap(operand.dims[columns - 1], operand.dims[columns]);
  std::swap(operand.strides[columns - 1], operand.strides[columns]);
}

/// An attribute that must be a permutation of `rank` dimensions if it is there; else empty.
std::vector<std::int64_t> permutation_of(const KernelRequest& request, const char* attribute,
                                         std::size_t rank) {
  std::vector<std::int64_t> permutation = request.node.ints_attribute(attribute, {});
  std::vector<std::int64_t> dimensions(rank);
  std::iota(dimensions.begin(), dimensions.end(), 0);
  if (!permutation.empty() && !std::ranges::is_permutation(permutation, dimensions))
    fail("node '{}': {} of {} is not a permutation of {} dimensions", request.node.name, attribute,
         qualified_op_type(request.node), rank);
  return permutation;
}

MatrixLayout layout_of(const StridedShape& operand, std::size_t batch_dims) {
  const std::size_t own = operand.dims.size() - 2;
  MatrixLayout layout;
  layout.batch_strides.assign(batch_dims, 0);
  for (std::size_t d = 0; d < own; ++d) {
    if (operand.dims[d] == 1) continue;
    layout.batch_strides[batch_dims - own + d] = operand.strides[d];
  }
  layout.row_stride = operand.strides[own];
  layout.column_stride = operand.strides[own + 1];
  return layout;
}

/// MatMul's rules: a vector is a row on the left and a column on the right, and leaves no dimension
/// of the result.
Product matmul_product(const KernelRequest& request) {
  Shape a_shape = request.inputs[0].shape;
  Shape b_shape = request.inputs[1].shape;
  Shape out_shape = request.outputs[0].shape;
  if (a_shape.size() == 1) {
    a_shape.insert(a_shape.begin(), 1);
    out_shape.insert(out_shape.end() - (b_shape.size() == 1 ? 0 : 1), 1);
  }
  if (b_shape.size() == 1) {
    b_shape.push_back(1);
    out_shape.push_back(1);
  }
  StridedShape a = permuted(a_shape, permutation_of(request, "a_perm", a_shape.size()));
  StridedShape b = permuted(b_shape, permutation_of(request, "b_perm", b_shape.size()));
  // out_perm makes what is stored of the result.
  const StridedShape out =
      permuted(out_shape, inverse(permutation_of(request, "out_perm", out_shape.size())));
  if (request.node.int_attribute("transA", 0) != 0) swap_rows_and_columns(a);
  if (request.node.int_attribute("transB", 0) != 0) swap_rows_and_columns(b);

  const std::size_t batch_dims = out.dims.size() - 2;
  const auto fits = [&](const StridedShape& operand) {
    const std::size_t own = operand.dims.size() - 2;
    for (std::size_t d = 0; d < own; ++d) {
      const std::int64_t whole = own > batch_dims ? 1 : out.dims[batch_dims - own + d];
      if (operand.dims[d] != 1 && operand.dims[d] != whole) return false;
    }
    return true;
  };
  // ONNX's inference lets some of these through.
  if (a.dims.back() != b.dims[b.dims.size() - 2] ||
      a.dims[a.dims.size() - 2] != out.dims[batch_dims] ||
      b.dims.back() != out.dims[batch_dims + 1] || !fits(a) || !fits(b))
    fail("node '{}': {} cannot multiply {} and {}", request.node.name,
         qualified_op_type(request.node), graph::to_string(request.inputs[0].shape),
         graph::to_string(request.inputs[1].shape));

  Product product;
  product.batches.assign(out.dims.begin(), out.dims.end() - 2);
  product.rows = out.dims[batch_dims];
  product.columns = out.dims[batch_dims + 1];
  product.depth = a.dims.back();
  product.a = layout_of(a, batch_dims);
  product.b = layout_of(b, batch_dims);
  product.out = layout_of(out, batch_dims);
  return product;
}

/// Gemm's C broadcasts to the result; a bias, which has one element a column, does too.
void add_c(Product& product, const KernelRequest& request, const Shape& to) {
  const auto strides = broadcast_strides(request.inputs[2].shape, to);
  if (strides.size() != to.size())
    fail("node '{}': C of {} does not broadcast to the product", request.node.name,
         qualified_op_type(request.node));
  product.c = MatrixLayout{std::vector<std::int64_t>(product.batches.size(), 0),
                           strides[to.size() - 2], strides.back()};
}

Activation activation_of(const KernelRequest& request) {
  if (const auto known = known_activation(request.node)) return *known;
  fail("node '{}': {} knows no activation '{}'", request.node.name, qualified_op_type(request.node),
       request.node.string_attribute("activation", ""));
}

/// The layouts that are there, c last.
std::vector<MatrixLayout*> layouts_of(Product& product) {
  std::vector<MatrixLayout*> layouts = {&product.a, &product.b, &product.out};
  if (product.c) layouts.push_back(&*product.c);
  return layouts;
}

/// Makes one batch dimension rows, if it can be.
bool make_rows(Product& product) {
  for (std::size_t d = 0; d < product.batches.size(); ++d) {
    if (product.b.batch_strides[d] != 0) continue;
    const auto layouts = layouts_of(product);
    const bool follow = std::ranges::all_of(layouts, [&](const MatrixLayout* layout) {
      return layout == &product.b || product.rows == 1 ||
             layout->batch_strides[d] == product.rows * layout->row_stride;
    });
    if (!follow) continue;
    for (MatrixLayout* layout : layouts) {
      if (layout != &product.b && product.rows == 1) layout->row_stride = layout->batch_strides[d];
      layout->batch_strides.erase(layout->batch_strides.begin() + static_cast<std::ptrdiff_t>(d));
    }
    product.rows *= product.batches[d];
    product.batches.erase(product.batches.begin() + static_cast<std::ptrdiff_t>(d));
    return true;
  }
  return false;
}

}  // namespace

std::optional<Activation> known_activation(const graph::Node& node) {
  const std::string name = node.string_attribute("activation", "");
  constexpr std::string_view names[] = {"", "Relu", "Gelu", "GeluTanh"};  // as Activation has them
  const auto found = std::ranges::find(names, name);
  if (found == std::end(names)) return std::nullopt;
  return static_cast<Activation>(found - names);
}

bool Product::has_bias() const {
  return c && c->row_stride == 0 && c->column_stride == 1 &&
         std::ranges::all_of(c->batch_strides, [](std::int64_t stride) { return stride == 0; });
}

std::int64_t Product::c_offset(std::int64_t element) const {
  const std::int64_t row = element / columns;
  return batch_offset(batches, c->batch_strides, row / rows) + row % rows * c->row_stride +
         element % columns * c->column_stride;
}

ProductStrides::Matrices::Matrices(const MatrixLayout& layout)
    : row(layout.row_stride), column(layout.column_stride) {
  std::ranges::copy(layout.batch_strides, batches);
}

ProductStrides::ProductStrides(const Product& product)
    : batch_dimensions(static_cast<int>(product.batches.size())),
      rows(product.rows),
      depth(product.depth),
      columns(product.columns),
      a(product.a),
      b(product.b),
      out(product.out) {
  std::ranges::copy(product.batches, batches);
}

std::int64_t batch_offset(const Shape& batches, const std::vector<std::int64_t>& strides,
                          std::int64_t batch) {
  std::int64_t offset = 0;
  for (std::size_t d = batches.size(); d-- > 0; batch /= batches[d])
    offset += batch % batches[d] * strides[d];
  return offset;
}

void merge_batches(Product& product) {
  if (product.is_empty()) return;
  const auto layouts = layouts_of(product);
  std::vector<std::vector<std::int64_t>*> strides;
  for (MatrixLayout* layout : layouts) strides.push_back(&layout->batch_strides);
  merge_dimensions(product.batches, strides);
  while (make_rows(product)) {
  }
}

Product product_of(const KernelRequest& request) {
  Product product = matmul_product(request);
  const bool is_gemm = request.node.op_type == "Gemm";
  if (is_gemm) {
    product.alpha = request.node.float_attribute("alpha", 1.0F);
    product.beta = request.node.float_attribute("beta", 1.0F);
  }
  if (is_given(request.inputs, 2) && product.beta != 0)
    add_c(product, request, {product.rows, product.columns});
  product.activation = activation_of(request);
  merge_batches(product);
  return product;
}

namespace cpu {

bool serves_fused_matmul(const graph::Node& node, std::span<const TensorView>,
                         std::span<const TensorView>) {
  constexpr std::array<const char*, 4> others = {"a_perm", "b_perm", "out_perm", "activation"};
  return std::ranges::none_of(others, [&](const char* name) { return node.has_attribute(name); });
}

bool serves_gathered_matmul(const graph::Node&, std::span<const TensorView> inputs,
                            std::span<const TensorView>) {
  const auto is_served = [](const TensorView& view) {
    return view.type == DataType::float32 && view.elements() > 0;
  };
  return is_served(inputs[0]) && is_served(inputs[1]) && inputs[2].elements() > 0;
}

}  // namespace cpu

namespace cuda {

bool serves_fused_matmul(const graph::Node& node, std::span<const TensorView>,
                         std::span<const TensorView> outputs) {
  return is_wide_float(outputs[0].type) && known_activation(node).has_value();
}

bool serves_gathered_matmul(const graph::Node&, std::span<const TensorView> inputs,
                            std::span<const TensorView>) {
  return inputs[0].type == inputs[1].type && is_wide_float(inputs[0].type) &&
         inputs[0].elements() > 0 && inputs[1].elements() > 0 && inputs[2].elements() > 0;
}

}  // namespace cuda

}  // namespace autopar::runtime
