#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/onnx/node_inference.h"

namespace autopar::graph {

/// What names of a form stand for as far as inputs have told: extents.
using FormNames = std::map<std::string, std::int64_t, std::less<>>;

/// Whether the input of the node has one of the shapes that the text allows; names that it tells
/// are added. The text is alternatives with '|' between them, each of which is one of
/// - `*`: any shape; `...@axis`: one with a dimension that the attribute names; `one`: one element,
/// whatever the rank; `()`: a scalar;
/// - `~` and dimensions: what broadcasts to them, without changing them;
/// - dimensions, with spaces between them: `...` any number of them (once an alternative), `_` any
///   extent, `2[:]` those of input 2, `0[:@axis]` those in front of the attribute, `0[@axis:]` from
///   it on, `0[@axis+1:]` behind it; or a product such as `4*h` or `@N*0[@axis]/@block_size`, in
///   which a quotient is a factor that is rounded up. Factors are a number, a name (one not known
///   yet is told by this extent, two say nothing),
///   `@kv_num_heads`: an integer attribute, `#axes`: how many integers an attribute has (the rank
///   of input 0 where it is absent), `rank`: of input 0, `outputs`: how many the node has, and
///   `0[@axis]`, `0[1]`: an input's extent.
bool fits_form(const NodeInContext& context, std::size_t input, std::string_view form,
               FormNames& names);

/// The attribute, or its default, as the operator's declaration has it; 0 where neither is.
std::int64_t attribute_or_default(const NodeInContext& context, std::string_view name);

/// Parts between separators, without spaces around them.
std::vector<std::string_view> parts_of(std::string_view text, char separator);

}  // namespace autopar::graph
