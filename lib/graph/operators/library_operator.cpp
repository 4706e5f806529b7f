#include "graph/operators/library_operator.h"

#include <array>
#include <deque>

#include "base/error.h"
#include "graph/operators/library_node.h"

namespace autopar::graph {
namespace {

/// The shape function has room for more outputs than the node has: what it writes there is seen.
constexpr std::size_t spare_outputs = 8;
constexpr std::int32_t untold = -1;

/// Elements keep their places.
std::deque<LibraryOperator>& all_operators() {
  static std::deque<LibraryOperator> operators;
  return operators;
}

[[noreturn]] void fail_as_faulty(const LibraryOperator& op, const std::string& what) {
  throw OperatorFault(fmt::format("{} of {}: its shape function {}; mend the library", op.name(),
                                  op.library.string(), what));
}

OutputType told_output(const LibraryOperator& op, const AutoparOutput& told, std::size_t place) {
  if (told.type == AUTOPAR_ABSENT) return {DataType::undefined, Shape{}};
  if (told.type == untold) fail_as_faulty(op, fmt::format("tells nothing of output {}", place));
  const auto type = static_cast<DataType>(told.type);
  if (told.type < AUTOPAR_FLOAT32 || told.type > AUTOPAR_INT2 || bits_of(type) == 0)
    fail_as_faulty(
        op, fmt::format("gives output {} the type {}, which there is not", place, told.type));
  if (told.rank < 0 || told.rank > AUTOPAR_MAX_RANK)
    fail_as_faulty(op, fmt::format("gives output {} {} dimensions", place, told.rank));
  Shape shape(told.shape, told.shape + told.rank);
  if (!is_possible(shape))
    fail_as_faulty(op,
                   fmt::format("gives output {} the impossible shape {}", place, to_string(shape)));
  return {type, std::move(shape)};
}

}  // namespace

std::string LibraryOperator::name() const {
  return fmt::format("{}::{}", definition->domain, definition->name);
}

void add_library_operator(LibraryOperator op) { all_operators().push_back(std::move(op)); }

const LibraryOperator* find_library_operator(std::string_view domain, std::string_view op_type) {
  for (const LibraryOperator& op : all_operators())
    if (op.definition->name == op_type && op.definition->domain == domain) return &op;
  return nullptr;
}

std::vector<OutputType> infer_by_library(const LibraryOperator& op,
                                         const std::map<std::string, Attribute>& attributes,
                                         const std::vector<const Value*>& inputs,
                                         std::size_t num_outputs) {
  std::vector<LibraryInput> shown;
  for (const Value* input : inputs)
    shown.push_back(input ? LibraryInput{input->type, input->shape,
                                         input->constant ? &*input->constant : nullptr}
                          : LibraryInput{});
  const LibraryNode node(attributes, shown, num_outputs);
  std::vector<AutoparOutput> told(num_outputs + spare_outputs, AutoparOutput{untold, untold, {}});
  std::array<char, AUTOPAR_ERROR_BYTES> reason{};
  if (op.definition->shapes(&node.view(), told.data(), reason.data()) != 0)
    fail("{} refuses it: {}", op.library.string(), reason_in(reason));
  std::vector<OutputType> outputs;
  for (std::size_t o = 0; o < num_outputs; ++o) outputs.push_back(told_output(op, told[o], o));
  for (std::size_t o = num_outputs; o < told.size(); ++o)
    if (told[o].type != untold || told[o].rank != untold)
      fail_as_faulty(op, fmt::format("tells of output {}, but the node has {}", o, num_outputs));
  return outputs;
}

}  // namespace autopar::graph
