#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/kernel.h"

/// What MatMul, Gemm and FusedMatMul (passes/passes.h) compute, in one form for all devices.
namespace autopar::runtime {

/// How the matrices of all batches lie, in elements.
struct MatrixLayout {
  /// One for each of the product's batch dimensions; 0 where the same matrices serve all of it.
  std::vector<std::int64_t> batch_strides;
  std::int64_t row_stride = 0;
  std::int64_t column_stride = 0;
};

enum class Activation { none, relu, gelu, gelu_tanh };
/// A node's attribute `activation`; nullopt where it names none of these.
std::optional<Activation> known_activation(const graph::Node& node);

/// out[batch, m, n] = activation(alpha * sum over k of a[batch, m, k] b[batch, k, n]
///                               + beta * c[batch, m, n])
struct Product {
  Shape batches;
  std::int64_t rows = 0;
  std::int64_t depth = 0;
  std::int64_t columns = 0;
  MatrixLayout a;
  MatrixLayout b;
  MatrixLayout out;
  std::optional<MatrixLayout> c = {};
  float alpha = 1;
  float beta = 1;
  Activation activation = Activation::none;

  bool is_empty() const { return rows == 0 || columns == 0 || graph::num_elements(batches) == 0; }
  bool is_unscaled() const { return alpha == 1 && beta == 1; }
  /// c is one number a column, the same in all batches.
  bool has_bias() const;
  /// Elements from the first of c to that which is added to an element of the result, counted row
  /// by row over all batches.
  std::int64_t c_offset(std::int64_t element) const;
};

/// The strides of a product's matrices as kernels of devices have them.
struct ProductStrides {
  static constexpr std::size_t max_batch_dimensions = 8;

  struct Matrices {
    std::int64_t batches[max_batch_dimensions] = {};
    std::int64_t row = 0;
    std::int64_t column = 0;

    Matrices() = default;
    explicit Matrices(const MatrixLayout& layout);
  };

  int batch_dimensions;
  std::int64_t batches[max_batch_dimensions] = {};
  std::int64_t rows;
  std::int64_t depth;
  std::int64_t columns;
  Matrices a, b, out;

  /// The product has no more than max_batch_dimensions.
  explicit ProductStrides(const Product& product);
};

/// Elements from the first matrix to that of the `batch`th, counted row-major.
std::int64_t batch_offset(const Shape& batches, const std::vector<std::int64_t>& strides,
                          std::int64_t batch);

/// Drops and joins batch dimensions, and makes those that share b and whose rows follow one another
/// rows of one product.
void merge_batches(Product& product);

/// What a MatMul, Gemm or FusedMatMul asks for, its batches merged. Throws Error naming the node
/// for permutations or an activation that make no sense, and where C does not broadcast.
Product product_of(const KernelRequest& request);

}  // namespace autopar::runtime
