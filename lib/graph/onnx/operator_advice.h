#pragma once

#include <string_view>

namespace autopar::graph {

/// What to do about a model that has this operator, which cannot be read; by default, to export it
/// with ONNX's own.
std::string_view advice_about(std::string_view domain, std::string_view op_type);

/// What to do about a model that has strings.
inline constexpr std::string_view advice_about_strings =
    "encode them as numbers outside of the model (of scikit-learn: fit the model on integer "
    "labels, "
    "or export it with skl2onnx's options={'zipmap': False, 'nocl': True})";

}  // namespace autopar::graph
