#include "graph/onnx/import/body_frames.h"

namespace autopar::graph {
namespace {

/// Smaller ones are parts of the body: shapes, axes, and the like.
constexpr std::int64_t smallest_captured_bytes = 1024;

/// The origins of a body's values, by name, since dropping dead nodes renumbers them.
class Origins {
 public:
  Origins(const std::map<ValueId, ValueId>& captured, const GraphBuilder& body) {
    for (const auto& [outer, inner] : captured) outer_[body.value(inner).name] = outer;
    for (const ValueId id : body.constants_from_file()) from_file_.insert(body.value(id).name);
  }
  /// no_value for what is not captured.
  ValueId outer(const Value& value) const {
    const auto found = outer_.find(value.name);
    return found == outer_.end() ? no_value : found->second;
  }
  bool is_from_file(const Value& value) const { return from_file_.contains(value.name); }

 private:
  std::unordered_map<std::string, ValueId> outer_;
  std::unordered_set<std::string> from_file_;
};

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
  const Origins origins(frame.captured, frame.builder);
  Finished finished{frame.builder.finish_body(outputs), {}};
  Graph& body = finished.body;
  remove_dead_nodes(body);

  const auto readers = consumers(body);
  std::vector<ValueId> inputs;
  std::vector<ValueId> captured;
  for (const ValueId input : body.inputs) {
    const ValueId outer = origins.outer(body.value(input));
    if (outer == no_value) {
      inputs.push_back(input);
    } else if (!readers[static_cast<std::size_t>(input)].empty()) {
      captured.push_back(input);
      finished.captured.push_back(outer);
    }
  }
  for (ValueId id = 0; id < std::ssize(body.values); ++id) {
    Value& value = body.value(id);
    if (!value.constant || value.constant->size_bytes() < smallest_captured_bytes) continue;
    ValueId outer = origins.outer(value);
    if (outer == no_value)
      outer = frames_.builder().add_constant({value.name, false}, *value.constant,
                                             origins.is_from_file(value));
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
