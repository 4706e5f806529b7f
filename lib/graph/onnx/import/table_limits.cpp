#include "graph/onnx/import/table_limits.h"

#include <algorithm>

#include "base/checked.h"
#include "graph/onnx/attribute_proto.h"

namespace autopar::graph {
namespace {

using Limit = std::optional<BrokenLimit>;

const Value* input(const NodeInContext& context, std::size_t i) {
  return i < context.inputs.size() ? context.inputs[i] : nullptr;
}

/// The integers of an input that is a constant; none of one that is not.
std::vector<std::int64_t> constants(const Value* value) {
  const bool is_known = value != nullptr && value->constant && value->constant->has_data();
  return is_known ? value->constant->to_int64s() : std::vector<std::int64_t>();
}

Limit limit_of(std::int64_t index, const Value& data, std::int64_t dim) {
  const std::int64_t rows = data.shape.at(static_cast<std::size_t>(dim));
  return index < rows ? std::nullopt : Limit({data.name, saturated_add(index, 1), rows});
}

Limit of_gather(const NodeInContext& context) {
  const std::vector<std::int64_t> indices = constants(input(context, 1));
  if (indices.empty()) return std::nullopt;
  const Value& data = *context.inputs.at(0);
  const std::int64_t axis = int_or(context.node, "axis", 0);
  return limit_of(std::ranges::max(indices), data, axis < 0 ? axis + std::ssize(data.shape) : axis);
}

/// The last dimension of the indices goes through dimensions of the data.
Limit of_gather_nd(const NodeInContext& context) {
  const std::vector<std::int64_t> indices = constants(input(context, 1));
  if (indices.empty()) return std::nullopt;
  const auto dims = static_cast<std::size_t>(context.inputs.at(1)->shape.back());
  std::vector<std::int64_t> last(dims, 0);
  for (std::size_t i = 0; i < indices.size(); ++i)
    last[i % dims] = std::max(last[i % dims], indices[i]);
  const std::int64_t first_dim = int_or(context.node, "batch_dims", 0);
  for (std::size_t d = 0; d < dims; ++d)
    if (const Limit limit =
            limit_of(last[d], *context.inputs.at(0), first_dim + static_cast<std::int64_t>(d)))
      return limit;
  return std::nullopt;
}

/// Its table of cosines has a row for each position up to the total length.
Limit of_rotary_attention(const NodeInContext& context) {
  constexpr std::size_t total_input = 6;
  constexpr std::size_t table_input = 7;
  const std::vector<std::int64_t> total = constants(input(context, total_input));
  const Value* table = input(context, table_input);
  if (table == nullptr || total.empty()) return std::nullopt;
  return limit_of(saturated_subtract(total.front(), 1), *table, 0);
}

}  // namespace

std::optional<BrokenLimit> find_broken_limit(const NodeInContext& context) {
  static const std::map<std::string_view, Limit (*)(const NodeInContext&)> table = {
      {"Gather", of_gather},
      {"GatherElements", of_gather},
      {"GatherND", of_gather_nd},
      {"GroupQueryAttention", of_rotary_attention},
  };
  const auto found = table.find(context.node.op_type());
  return found == table.end() ? std::nullopt : found->second(context);
}

}  // namespace autopar::graph
