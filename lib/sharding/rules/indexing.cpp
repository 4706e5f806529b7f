// Lookups and updates by index.

#include <fmt/format.h>

#include "sharding/rules/table.h"

namespace autopar::sharding::rules {
namespace {

using graph::DataType;
using graph::Tensor;
using graph::ValueId;

/// Lookup in a share of a table's rows [begin, end): rows that lie elsewhere come out as zeros, so
/// that the sum over all shares is the whole lookup. Written in plain ONNX:
///
///     shifted = Mod(indices, rows) - begin        a negative index counts from the table's end
///     valid   = 0 <= shifted < end - begin
///     exists  = -rows <= indices < rows
///     row     = Where(exists, Where(valid, shifted, 0), indices)
///     result  = Where(valid, Gather(table, row), 0)
///
/// An index that is out of the whole table's range is out of the share's, so that Gather fails.
class MaskedLookup {
 public:
  MaskedLookup(LocalNode& local, std::size_t axis)
      : local_(local),
        axis_(axis),
        index_type_(local.shard.value(local.node.inputs[1]).type),
        index_shape_(local.shard.value(local.node.inputs[1]).shape) {}

  /// Makes the node the last of the lookup's, and appends the others.
  void write(Range share, std::int64_t rows) {
    const ValueId indices = local_.node.inputs[1];
    const ValueId from_start = index_node("Mod", {indices, index(rows)});
    const ValueId shifted = index_node("Sub", {from_start, index(share.begin)});
    const ValueId valid = is_within(shifted, 0, share.size());
    const ValueId exists = is_within(indices, -rows, rows);
    const ValueId safe = index_node("Where", {valid, shifted, index(0)});
    const ValueId row = index_node("Where", {exists, safe, indices});

    const graph::Value result = local_.shard.value(local_.node.outputs[0]);
    graph::Node gather = local_.node;
    gather.inputs[1] = row;
    gather.outputs[0] =
        add(gather.op_type, gather.inputs, result.type, result.shape, local_.node.attributes);
    const ValueId zero = constant("zero", Tensor::zeros(result.type, {}));
    local_.node.op_type = "Where";
    local_.node.inputs = {aligned_with_result(valid), gather.outputs[0], zero};
    local_.node.attributes.clear();
  }

 private:
  std::string name(std::string_view what) const {
    return fmt::format("{}/lookup/{}", local_.node.name, what);
  }

  ValueId constant(std::string_view what, Tensor tensor) {
    return local_.shard.add_constant(name(what), std::move(tensor));
  }

  ValueId index(std::int64_t value) {
    if (index_type_ == DataType::int64) return constant("index", Tensor::of_int64({}, {{value}}));
    const auto narrow = static_cast<std::int32_t>(value);
    return constant("index", Tensor::of<std::int32_t>(DataType::int32, {}, std::span(&narrow, 1)));
  }

  ValueId index_node(const char* op_type, std::vector<ValueId> inputs) {
    return add(op_type, std::move(inputs), index_type_, index_shape_, {});
  }

  ValueId is_within(ValueId value, std::int64_t begin, std::int64_t end) {
    const ValueId not_before = bool_node("GreaterOrEqual", {value, index(begin)});
    const ValueId not_after = bool_node("Less", {value, index(end)});
    return bool_node("And", {not_before, not_after});
  }

  ValueId bool_node(const char* op_type, std::vector<ValueId> inputs) {
    return add(op_type, std::move(inputs), DataType::boolean, index_shape_, {});
  }

  /// The mask with a dimension of 1 for each of the table's that follow the rows.
  ValueId aligned_with_result(ValueId valid) {
    const std::size_t table_rank = local_.shard.value(local_.node.inputs[0]).shape.size();
    Shape shape = index_shape_;
    shape.resize(shape.size() + table_rank - axis_ - 1, 1);
    if (shape == index_shape_) return valid;
    const ValueId as_ints =
        constant("shape", Tensor::of_int64({static_cast<std::int64_t>(shape.size())}, shape));
    return add("Reshape", {valid, as_ints}, DataType::boolean, shape,
               {{"allowzero", std::int64_t{1}}});
  }

  ValueId add(const std::string& op_type, std::vector<ValueId> inputs, DataType type, Shape shape,
              std::map<std::string, graph::Attribute> attributes) {
    const std::string unique = name(fmt::format("{}{}", op_type, counter_++));
    const ValueId output = local_.shard.add_value({unique, type, std::move(shape), std::nullopt});
    local_.shard.nodes.push_back(
        {unique, op_type, "", std::move(inputs), {output}, std::move(attributes)});
    return output;
  }

  LocalNode& local_;
  std::size_t axis_;
  DataType index_type_;
  Shape index_shape_;
  int counter_ = 0;
};

/// Updates that are maxima or minima may come in any number of shares; others are whole.
std::vector<FactorOptions> shares_of_updates(const Operator& op, std::string& places) {
  const std::string reduction = op.node.string_attribute("reduction", "none");
  if (reduction == "max") return options_of(places, FactorKind::max);
  if (reduction == "min") return options_of(places, FactorKind::min);
  places = whole(places.size());
  return {};
}

}  // namespace

ShardingRule gather(const Operator& op) {
  const std::vector<Shape>& shapes = op.inputs;
  const std::size_t axis = op.axis(0);
  const std::string all = letters(shapes[0].size() + shapes[1].size());
  const std::string table = all.substr(0, shapes[0].size());
  const std::string indices = all.substr(shapes[0].size());
  std::string result = table;
  result.replace(axis, 1, indices);
  const bool adds_up = op.type() != DataType::boolean && op.type() != DataType::string;
  ShardingRule rule = op.rule({table, indices}, {result},
                              {{.letter = table[axis],
                                .kind = adds_up ? FactorKind::sum : FactorKind::whole,
                                .never_empty = true}});
  rule.lookup_input = 0;
  rule.placed = table[axis];
  rule.localize = [axis, rows = shapes[0][axis], factor = table[axis]](LocalNode& local) {
    const Range share = local.share(factor);
    if (share.size() < rows) MaskedLookup(local, axis).write(share, rows);
  };
  return rule;
}

/// Indices may leave out the end of a dimension of the data, which is then whole.
ShardingRule gather_elements(const Operator& op) {
  const std::vector<Shape>& shapes = op.inputs;
  const std::size_t axis = op.axis(0);
  const std::string indices = letters(shapes[1].size());
  std::string data = indices;
  std::string looked_up = indices;
  for (std::size_t d = 0; d < data.size(); ++d) {
    if (d == axis) {
      data[d] = '1';
    } else if (shapes[0][d] != shapes[1][d]) {
      data[d] = looked_up[d] = '1';
    }
  }
  ShardingRule rule = op.rule({data, looked_up}, {looked_up});
  rule.lookup_input = 0;
  return rule;
}

/// data: batch, indexed, rest; indices: batch, places, 1; output: batch, places, rest.
ShardingRule gather_nd(const Operator& op) {
  const std::vector<Shape>& shapes = op.inputs;
  const auto num_batch = static_cast<std::size_t>(op.node.int_attribute("batch_dims", 0));
  const auto num_indexed = static_cast<std::size_t>(shapes[1].back());
  const std::size_t num_rest = shapes[0].size() - num_batch - num_indexed;
  const std::size_t num_places = shapes[1].size() - 1 - num_batch;
  const std::string all = letters(num_batch + num_places + num_rest);
  const std::string batch = all.substr(0, num_batch);
  const std::string places = all.substr(num_batch, num_places);
  const std::string rest = all.substr(num_batch + num_places);
  ShardingRule rule =
      op.rule({batch + whole(num_indexed) + rest, batch + places + "1"}, {batch + places + rest});
  rule.lookup_input = 0;
  return rule;
}

/// Data and updates split together where both have the whole dimension.
ShardingRule scatter_elements(const Operator& op) {
  const std::vector<Shape>& shapes = op.inputs;
  const std::size_t axis = op.axis(0);
  std::string text = letters(shapes[0].size());
  for (std::size_t d = 0; d < text.size(); ++d) {
    if (shapes[0][d] != shapes[1][d] && d != axis) text[d] = '1';
  }
  std::string place(1, text[axis]);
  const auto options = shares_of_updates(op, place);
  const std::string data = with_whole(text, axis);
  text.replace(axis, 1, place);
  return op.rule({data, text, text}, {data}, options);
}

/// data: indexed, rest; indices: places, 1; updates: places, rest.
ShardingRule scatter_nd(const Operator& op) {
  const std::vector<Shape>& shapes = op.inputs;
  const auto num_indexed = static_cast<std::size_t>(shapes[1].back());
  const std::size_t num_rest = shapes[0].size() - num_indexed;
  const std::string all = letters(num_rest + shapes[1].size() - 1);
  const std::string rest = all.substr(0, num_rest);
  std::string places = all.substr(num_rest);
  const auto options = shares_of_updates(op, places);
  const std::string data = whole(num_indexed) + rest;
  return op.rule({data, places + "1", places + rest}, {data}, options);
}

}  // namespace autopar::sharding::rules
