#include "graph/onnx/operands/check_operands.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>

#include "base/checked.h"
#include "base/text.h"
#include "graph/onnx/attribute_proto.h"
#include "graph/onnx/operands/operand_form.h"
#include "graph/onnx/operands/operand_table.h"
#include "graph/own_operators.h"

namespace autopar::graph {
namespace {

bool is_given(const NodeInContext& context, std::size_t input) {
  return input < context.inputs.size() && context.inputs[input] != nullptr;
}

/// What the operator calls the input; one of a variadic input is numbered.
std::string name_of_input(const onnx::OpSchema& schema, std::size_t input) {
  const auto& declared = schema.inputs();
  if (declared.empty()) return std::to_string(input);
  if (input + 1 < declared.size() ||
      (input + 1 == declared.size() && declared.back().GetOption() != onnx::OpSchema::Variadic))
    return declared[input].GetName();
  return fmt::format("{}[{}]", declared.back().GetName(), input + 1 - declared.size());
}

/// ONNX's own check takes a parameter of a function for an input, also where the call leaves it
/// out.
void check_needed(const NodeInContext& context) {
  const auto& declared = context.schema->inputs();
  for (std::size_t i = 0; i < declared.size(); ++i)
    if (declared[i].GetOption() == onnx::OpSchema::Single && !is_given(context, i))
      fail("its input '{}' is left out", name_of_input(*context.schema, i));
  if (declared.empty() || declared.back().GetOption() != onnx::OpSchema::Variadic) return;
  for (std::size_t i = declared.size() - 1; i < context.inputs.size(); ++i)
    if (context.inputs[i] == nullptr)
      fail("its input '{}' is left out", name_of_input(*context.schema, i));
}

bool holds(const NodeInContext& context, std::string_view condition) {
  return std::ranges::all_of(parts_of(condition, ' '), [&](std::string_view part) {
    if (part.empty()) return true;
    const auto number = [](std::string_view text) {
      std::int64_t value = 0;
      std::from_chars(text.data(), text.data() + text.size(), value);
      return value;
    };
    const auto equals = part.find('=');
    if (equals != part.npos) {
      const bool differs = part[equals - 1] == '!';
      const std::int64_t value =
          attribute_or_default(context, part.substr(0, equals - (differs ? 1 : 0)));
      return (value == number(part.substr(equals + 1))) != differs;
    }
    const bool is_absent = part.starts_with('!');
    const auto input = static_cast<std::size_t>(number(part.substr(is_absent ? 1 : 0)));
    return is_given(context, input) != is_absent;
  });
}

/// The first input that the forms do not allow, and what it should have been.
struct Misfit {
  std::size_t input = 0;
  std::string_view form;
  FormNames names;
};

/// Names that are known already must mean the same again.
std::optional<Misfit> find_misfit(const NodeInContext& context, std::string_view forms,
                                  FormNames& names) {
  std::size_t input = 0;
  for (const std::string_view form : parts_of(forms, ',')) {
    if (is_given(context, input) && !fits_form(context, input, form, names))
      return Misfit{input, form, names};
    ++input;
  }
  return std::nullopt;
}

std::string to_text(const FormNames& names) {
  std::string text;
  for (const auto& [name, extent] : names)
    text += fmt::format("{}{} = {}", text.empty() ? " with " : ", ", name, extent);
  return text;
}

std::string shapes_of(const NodeInContext& context) {
  std::string text;
  for (const Value* value : context.inputs)
    text += (text.empty() ? "" : ", ") + (value == nullptr ? "none" : to_string(value->shape));
  return text;
}

/// Inference would divide by a stride of 0, and windows that reach beyond what an int holds have no
/// kernel.
void check_window(const onnx::NodeProto& node) {
  if (!node.domain().empty()) return;
  for (const auto& attribute : node.attribute()) {
    const std::string& name = attribute.name();
    const bool is_window = name == "strides" || name == "dilations" || name == "kernel_shape";
    const bool is_padding = name == "pads" || name == "output_padding";
    const auto is_positive = [](std::int64_t extent) { return extent > 0; };
    const auto is_usual = [](std::int64_t extent) { return std::abs(extent / 2) < 1 << 29; };
    if ((is_window && !std::ranges::all_of(attribute.ints(), is_positive)) ||
        (name == "group" && attribute.i() <= 0))
      fail("its attribute '{}' is not positive", name);
    if ((is_window || is_padding) && !std::ranges::all_of(attribute.ints(), is_usual))
      fail("its attribute '{}' is beyond what a window may have", name);
  }
}

void check_flags(const onnx::NodeProto& node) {
  if (!node.domain().empty()) return;
  static const std::vector<std::string_view> flags = parts_of(flag_attributes(), ' ');
  for (const auto& attribute : node.attribute()) {
    const bool is_flag = std::ranges::find(flags, attribute.name()) != flags.end();
    if (is_flag && attribute.i() != 0 && attribute.i() != 1)
      fail("its attribute '{}' is {}, but must be 0 or 1", attribute.name(), attribute.i());
  }
}

void check_words(const onnx::NodeProto& node) {
  if (!node.domain().empty()) return;
  for (const AttributeWords& line : attribute_words()) {
    if (!line.op_type.empty() && line.op_type != node.op_type()) continue;
    const auto* attribute = find_attribute(node, std::string(line.attribute));
    if (attribute == nullptr || attribute->s().empty()) continue;
    const auto words = parts_of(line.words, ' ');
    if (std::ranges::find(words, attribute->s()) == words.end())
      fail("its attribute '{}' is '{}', but must be one of {}", line.attribute,
           one_line(attribute->s()), line.words);
  }
}

/// The integers of an input that is known; nullopt for others.
std::optional<std::vector<std::int64_t>> known_integers(const NodeInContext& context,
                                                        std::size_t input) {
  if (!is_given(context, input)) return std::nullopt;
  const auto& constant = context.inputs[input]->constant;
  const bool is_known =
      constant && constant->has_data() &&
      (constant->type() == DataType::int64 || constant->type() == DataType::int32);
  return is_known ? std::optional(constant->to_int64s()) : std::nullopt;
}

void check_axes(const NodeInContext& context) {
  if (!context.node.domain().empty() || !is_given(context, 0)) return;
  const auto rank = std::ssize(context.inputs[0]->shape);
  for (const AxesInput& line : axes_inputs()) {
    if (line.op_type != context.node.op_type() || !is_given(context, line.input)) continue;
    const auto axes = known_integers(context, line.input);
    if (!axes) continue;
    for (const std::int64_t axis : *axes)
      if (axis < -rank || axis >= rank)
        fail("its input '{}' has {}, but its data has {} dimension(s)",
             name_of_input(*context.schema, line.input), axis, rank);
  }
}

/// Inference reads no long lists: a shape of more dimensions than a tensor may have would count as
/// one that only the run knows.
void check_length_of_shape(const NodeInContext& context) {
  constexpr std::array<AxesInput, 5> lists = {
      {{"ConstantOfShape", 0}, {"Expand", 1}, {"Reshape", 1}, {"Tile", 1}, {"Unsqueeze", 1}}};
  for (const AxesInput& line : lists) {
    if (line.op_type != context.node.op_type() || !context.node.domain().empty()) continue;
    if (!is_given(context, line.input)) continue;
    const std::int64_t count = num_elements(context.inputs[line.input]->shape);
    if (count > 1 &&
        !is_possible(Shape(static_cast<std::size_t>(std::min<std::int64_t>(count, 1 << 16)), 1)))
      fail("its input '{}' asks for {} dimensions, which are more than a tensor may have",
           name_of_input(*context.schema, line.input), count);
  }
}

/// Inference and kernels cut the signal by these.
void check_frames(const NodeInContext& context) {
  if (context.node.op_type() != "STFT" || !context.node.domain().empty()) return;
  for (const std::size_t input : {std::size_t{1}, std::size_t{3}})
    if (const auto numbers = known_integers(context, input); numbers && !numbers->empty())
      if (const std::int64_t length = numbers->front(); length < 1)
        fail("its input '{}' is {}, not positive", name_of_input(*context.schema, input), length);
}

/// Inference and kernels add them to extents.
void check_pads(const NodeInContext& context) {
  constexpr std::int64_t most = std::int64_t{1} << 40;
  if (context.node.op_type() != "Pad" || !context.node.domain().empty()) return;
  if (const auto pads = known_integers(context, 1))
    for (const std::int64_t pad : *pads)
      if (pad < -most || pad > most)
        fail("its input 'pads' has {}, which is beyond what a tensor may have", pad);
}

/// Inference reads the first dimensions that are named, and no others.
void check_permutation(const NodeInContext& context) {
  if (context.node.op_type() != "Transpose" || !context.node.domain().empty()) return;
  const auto* perm = find_attribute(context.node, "perm");
  if (perm == nullptr || !is_given(context, 0)) return;
  const Shape& shape = context.inputs[0]->shape;
  std::vector<std::int64_t> named(perm->ints().begin(), perm->ints().end());
  std::ranges::sort(named);
  bool is_permutation = named.size() == shape.size();
  for (std::size_t d = 0; is_permutation && d < named.size(); ++d)
    is_permutation = named[d] == static_cast<std::int64_t>(d);
  if (!is_permutation)
    fail("its attribute 'perm' ({}) does not name each dimension of {} once",
         fmt::join(perm->ints(), ", "), to_string(shape));
}

/// Inference counts dimensions from it without a look.
void check_batch_dims(const NodeInContext& context) {
  if (context.node.op_type() != "GatherND" || !context.node.domain().empty()) return;
  const std::int64_t batches = attribute_or_default(context, "batch_dims");
  const Shape& data = context.inputs[0]->shape;
  if (batches < 0 || batches >= std::ssize(data))
    fail("its attribute 'batch_dims' is {}, but its data is {}", batches, to_string(data));
}

/// Attention: each head of keys and values serves as many heads of queries.
void check_heads(const NodeInContext& context) {
  if (context.node.op_type() != "Attention" || !context.node.domain().empty()) return;
  const std::int64_t queries = attribute_or_default(context, "q_num_heads");
  const std::int64_t keys = attribute_or_default(context, "kv_num_heads");
  if (queries < 0 || keys < 0 || (keys > 0 && queries % keys != 0))
    fail("its attribute 'q_num_heads' is {}, which is no multiple of 'kv_num_heads', {}", queries,
         keys);
}

/// ExpertMatMulNBits, which a model may have written by itself.
void check_expert_product(const NodeInContext& context) {
  if (context.node.op_type() != "ExpertMatMulNBits" || context.node.domain() != own_domain) return;
  const std::int64_t bits = int_or(context.node, "bits", 4);
  const std::int64_t block = int_or(context.node, "block_size", 0);
  if ((bits != 2 && bits != 4 && bits != 8) || block < 0 || block > largest_block)
    fail("its attributes make no sense: bits {}, block_size {}", bits, block);
  const Shape& rows = context.inputs[0]->shape;
  const Shape& weights = context.inputs[2]->shape;
  if (rows.size() != 2 || weights.size() != 3 ||
      saturated_multiply(weights[2], 8) != saturated_multiply(rows[1], bits))
    fail("its rows {} of {} bits do not fit its weights {}", to_string(rows), bits,
         to_string(weights));
  const std::int64_t length = block > 0 ? block : std::max<std::int64_t>(1, rows[1]);
  const std::int64_t blocks = rows[1] / length + (rows[1] % length == 0 ? 0 : 1);
  const auto has_last = [&](std::size_t input, std::int64_t extent) {
    return !is_given(context, input) || context.inputs[input]->shape.size() != 3 ||
           context.inputs[input]->shape[2] == extent;
  };
  if (length % (8 / bits) != 0 || !has_last(3, blocks) || !has_last(4, (blocks * bits + 7) / 8))
    fail("its scales or zero points are not of {} block(s) of {} numbers: its inputs are {}",
         blocks, length, shapes_of(context));
}

}  // namespace

void check_operand_forms(const NodeInContext& context) {
  check_needed(context);
  check_axes(context);
  check_length_of_shape(context);
  check_frames(context);
  check_pads(context);
  check_permutation(context);
  check_window(context.node);
  check_flags(context.node);
  check_words(context.node);
  check_heads(context);
  check_batch_dims(context);
  check_expert_product(context);
  std::optional<Misfit> furthest;
  for (const OperandForms& line : operand_table()) {
    if (line.op_type != context.node.op_type() || line.domain != context.node.domain() ||
        !holds(context, line.condition))
      continue;
    // A product of two names says nothing before one of them is known: what inputs behind it tell
    // is used the second time.
    FormNames names;
    auto misfit = find_misfit(context, line.forms, names);
    if (!misfit) misfit = find_misfit(context, line.forms, names);
    if (!misfit) return;
    if (!furthest || misfit->input > furthest->input) furthest = std::move(misfit);
  }
  if (!furthest) return;
  fail("its input '{}' is {}, but must be '{}'{} (its inputs are {})",
       name_of_input(*context.schema, furthest->input),
       to_string(context.inputs[furthest->input]->shape), furthest->form, to_text(furthest->names),
       shapes_of(context));
}

}  // namespace autopar::graph
