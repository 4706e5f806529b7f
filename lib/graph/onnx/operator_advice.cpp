#include "graph/onnx/operator_advice.h"

#include <algorithm>
#include <iterator>

namespace autopar::graph {
namespace {

/// An empty operator stands for all of its domain.
struct Advice {
  std::string_view domain;
  std::string_view op_type;
  std::string_view text;
};

constexpr std::string_view one_cpu =
    "ONNX Runtime made it for one kind of CPU: have it optimise the model at the level 'extended' "
    "instead of 'all'";

constexpr Advice advices[] = {
    {"com.microsoft.nchwc", "", one_cpu},
    {"com.ms.internal.nhwc", "", one_cpu},
    {"ai.onnx.ml", "ZipMap", "export the model with skl2onnx's options={'zipmap': False}"},
};

}  // namespace

std::string_view advice_about(std::string_view domain, std::string_view op_type) {
  const auto* found = std::ranges::find_if(advices, [&](const Advice& advice) {
    return advice.domain == domain && (advice.op_type.empty() || advice.op_type == op_type);
  });
  if (found != std::end(advices)) return found->text;
  if (domain.empty())
    return "export the model with ONNX's own operators or with the function that defines it";
  return "give the library that has it with --operators LIBRARY.so, or export the model with "
         "ONNX's own operators or "
         "with the function that defines it";
}

}  // namespace autopar::graph
