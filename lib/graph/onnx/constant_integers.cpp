#include "graph/onnx/constant_integers.h"

#include "base/error.h"

namespace autopar::graph {

std::vector<std::int64_t> constant_integers(const Value& constant) {
  const bool is_complex =
      constant.type == DataType::complex64 || constant.type == DataType::complex128;
  if (is_floating_point(constant.type) || is_complex)
    fail("'{}' is {}, but must have integers or truth values", constant.name,
         name_of(constant.type));
  return constant.constant->to_int64s();
}

}  // namespace autopar::graph
