#pragma once

#include "graph/contrib/body_builder.h"

namespace autopar::graph::microsoft {

/// The keys or the values of a GroupQueryAttention as they stand in its cache, [batch, heads, rows,
/// width].
struct CacheForm {
  std::string part;  ///< "k" or "v", as the names of its attributes and inputs begin
  std::int64_t heads = 1;
  std::int64_t depth = 0;
  DataType computed = DataType::float32;  ///< of what the attention reads
  /// Bits of a number in the cache: 8, as int8; 4, two to a byte, the first one low, 0 for -8; or 0
  /// where the cache is not quantised.
  std::int64_t bits = 0;
  bool by_channel = false;  ///< each element of each head has a scale of its own

  bool is_quantised() const { return bits != 0; }
  std::int64_t width() const { return bits == 4 ? depth / 2 : depth; }
};

/// What the node says of its `part`. Throws Error for a form that is not served.
CacheForm cache_form(const BodyBuilder& body, const std::string& part, std::int64_t heads,
                     std::int64_t depth);

/// New rows as the cache has them, [batch, rows, heads x width], of `x`, [batch, rows, heads x
/// depth].
Operand stored_rows(const CacheForm& form, const Operand& x, std::int64_t batch, std::int64_t rows);

/// The numbers, [batch, heads, rows, depth], that a cache stands for.
Operand numbers_in(const CacheForm& form, const Operand& cache, std::int64_t batch,
                   std::int64_t rows);

}  // namespace autopar::graph::microsoft
