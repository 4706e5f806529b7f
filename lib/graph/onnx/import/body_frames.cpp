#include "graph/onnx/import/body_frames.h"

namespace autopar::graph {
namespace {

/// Smaller ones are parts of the body: shapes, axes, and the like.
constexpr std::int64_t smallest_captured_bytes = 1024;

}  // namespace

ValueId BodyFrames::bring_in(ValueId id, int depth) {
  for (auto into = static_cast<std::size_t>(depth) + 1; into < frames_.size(); ++into)
    id = capture(id, into);
  return id;
}

ValueId BodyFrames::capture(ValueId outer, std::size_t into) {
  if (outer == no_value) return no_value;
  if (Sequences::is_sequence(outer)) {
    std::vector<ValueId> elements = sequences_.elements(outer);
    for (ValueId& element : elements) element = capture(element, into);
    return sequences_.add(std::move(elements));
  }
  const GraphBuilder& around = frames_[into - 1].builder;
  Frame& frame = frames_[into];
  const auto [entry, is_new] = frame.captured.try_emplace(outer, no_value);
  if (!is_new) return entry->second;
  const Value& value = around.value(outer);
  const ValueName name{value.name, false};
  return entry->second = value.constant ? frame.builder.add_constant(name, *value.constant,
                                                                     around.is_from_file(outer))
                                        : frame.builder.add_input(name, value.type, value.shape);
}

BodyFrames::Body::Body(BodyFrames& frames)
    : frames_(frames),
      value_suffixes_(frames.builder().names().values.suffixes()),
      node_suffixes_(frames.builder().names().nodes.suffixes()) {
  frames.frames_.push_back({frames.builder().for_body(), {}});
}

BodyFrames::Body::~Body() {
  if (is_finished_) return;
  frames_.builder().release_names();
  frames_.frames_.pop_back();
  TakenNames& names = frames_.builder().names();
  names.values.set_suffixes(std::move(value_suffixes_));
  names.nodes.set_suffixes(std::move(node_suffixes_));
}

BodyFrames::Finished BodyFrames::Body::finish(const std::vector<ValueId>& outputs) {
  Frame frame = std::move(frames_.frames_.back());
  frames_.frames_.pop_back();
  is_finished_ = true;
  // By name, since dropping dead nodes renumbers values.
  std::unordered_map<std::string, ValueId> outer_of;
  for (const auto& [outer, inner] : frame.captured)
    outer_of[frame.builder.value(inner).name] = outer;
  std::unordered_set<std::string> from_file;
  for (const ValueId id : frame.builder.constants_from_file())
    from_file.insert(frame.builder.value(id).name);
  Finished finished{frame.builder.finish_body(outputs), {}};
  Graph& body = finished.body;
  remove_dead_nodes(body);

  const auto readers = consumers(body);
  std::vector<ValueId> inputs;
  std::vector<ValueId> captured;
  for (const ValueId input : body.inputs) {
    const auto outer = outer_of.find(body.value(input).name);
    if (outer == outer_of.end()) {
      inputs.push_back(input);
    } else if (!readers[static_cast<std::size_t>(input)].empty()) {
      captured.push_back(input);
      finished.captured.push_back(outer->second);
    }
  }
  for (ValueId id = 0; id < std::ssize(body.values); ++id) {
    Value& value = body.value(id);
    if (!value.constant || value.constant->size_bytes() < smallest_captured_bytes) continue;
    ValueId& outer = outer_of.try_emplace(value.name, no_value).first->second;
    if (outer == no_value)
      outer = frames_.builder().add_constant({value.name, false}, *value.constant,
                                             from_file.contains(value.name));
    captured.push_back(id);
    finished.captured.push_back(outer);
    value.constant.reset();
  }
  inputs.insert(inputs.end(), captured.begin(), captured.end());
  body.inputs = std::move(inputs);
  remove_dead_nodes(body);
  return finished;
}

}  // namespace autopar::graph
