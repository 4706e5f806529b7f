#include "graph/onnx/control_flow/control_flow.h"

namespace autopar::graph {
namespace {

/// `yes` where the condition holds, else `no`, element by element of two sequences.
ValueId either_list(ValueId condition, ValueId yes, ValueId no, NodeReader& reader) {
  if (!Sequences::is_sequence(yes) || !Sequences::is_sequence(no))
    fail("its condition is not known before the run, but decides whether a value is there");
  Values elements = reader.sequences().elements(yes);
  const Values others = reader.sequences().elements(no);
  if (elements.size() != others.size())
    fail(
        "its condition is not known before the run, but decides whether a sequence has {} or {} "
        "tensors",
        elements.size(), others.size());
  for (std::size_t i = 0; i < elements.size(); ++i)
    elements[i] = either(condition, elements[i], others[i], reader);
  return reader.sequences().add(std::move(elements));
}

}  // namespace

ValueId either(ValueId condition, ValueId yes, ValueId no, NodeReader& reader) {
  if (yes == no) return yes;
  if (yes <= no_value || no <= no_value) return either_list(condition, yes, no, reader);
  if (reader.value(yes).type != reader.value(no).type ||
      reader.value(yes).shape != reader.value(no).shape) {
    reader.note_refusal({reader.value(yes).shape, reader.value(no).shape});
    fail_unknown(fmt::format(
        "its condition{} is not known before the run, but decides whether '{}' is {} or {}",
        reader.is_input(condition) ? fmt::format(", the input '{}',", reader.value(condition).name)
                                   : "",
        reader.value(yes).name, described(reader.value(yes)), described(reader.value(no))));
  }
  if (!reader.value(condition).shape.empty())
    condition = reader.add("Reshape", {condition, vector_of({}, reader)}, {});
  return reader.add("Where", {condition, yes, no}, {});
}

Values read_if(const onnx::NodeProto& node, const Values& inputs, NodeReader& reader) {
  const auto read = [&](const char* branch, int round) {
    const onnx::GraphProto& body = body_of(node, branch);
    if (body.output_size() != node.output_size())
      fail("it has {} outputs, its {} {}", node.output_size(), branch, body.output_size());
    return reader.read(body, {}, round);
  };
  const auto& condition = reader.value(inputs.at(0)).constant;
  if (condition) {
    const auto taken = known(inputs[0], reader);
    if (!taken) fail("its condition is a constant without one truth");
    return read(*taken != 0 ? "then_branch" : "else_branch", -1);
  }
  const Values yes = read("then_branch", 1);
  const Values no = read("else_branch", 0);
  Values outputs;
  for (std::size_t o = 0; o < yes.size(); ++o)
    outputs.push_back(either(inputs[0], yes[o], no[o], reader));
  return outputs;
}

}  // namespace autopar::graph
