#include "instance.h"

#include <array>
#include <charconv>
#include <map>
#include <sstream>
#include <utility>

#include "base/error.h"
#include "graph/onnx/infer_node.h"

namespace autopar::rule_check {
namespace {

using graph::DataType;
using graph::Shape;
using graph::Tensor;
using graph::ValueId;

constexpr std::int64_t newest_opset = 23;

constexpr std::array<std::pair<std::string_view, DataType>, 9> types{{
    {"b", DataType::boolean},
    {"i", DataType::int64},
    {"i32", DataType::int32},
    {"i8", DataType::int8},
    {"u8", DataType::uint8},
    {"h", DataType::float16},
    {"d", DataType::float64},
    {"f", DataType::float32},
    {"bf", DataType::bfloat16},
}};

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Instance parse() {
    instance_.text = text_;
    std::istringstream words{std::string(text_)};
    std::string word;
    words >> word;
    node_.name = "node";
    parse_operator(word);
    std::size_t outputs = 1;
    while (words >> word) {
      if (word == "->") {
        words >> outputs;
      } else {
        node_.inputs.push_back(parse_operand(word));
      }
    }
    add_outputs(outputs);
    instance_.op_type = graph::qualified_op_type(node_);
    instance_.graph.nodes.push_back(std::move(node_));
    graph::check_invariants(instance_.graph);
    return std::move(instance_);
  }

 private:
  [[noreturn]] void refuse(std::string_view what) const {
    fail("the instance '{}': {}", text_, what);
  }

  std::int64_t number(std::string_view text) const {
    std::int64_t value = 0;
    const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || rest != text.data() + text.size()) {
      refuse(fmt::format("'{}' is no integer", text));
    }
    return value;
  }

  std::vector<std::int64_t> numbers(std::string_view text, char separator) const {
    std::vector<std::int64_t> values;
    while (!text.empty()) {
      const std::size_t end = std::min(text.find(separator), text.size());
      values.push_back(number(text.substr(0, end)));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    return values;
  }

  void parse_operator(std::string_view word) {
    const std::size_t open = std::min(word.find('('), word.size());
    std::string_view name = word.substr(0, open);
    if (open < word.size()) parse_attributes(word.substr(open + 1, word.size() - open - 2));
    const std::size_t colons = name.find("::");
    if (colons != std::string_view::npos) {
      node_.domain = name.substr(0, colons);
      name.remove_prefix(colons + 2);
      instance_.graph.opsets[node_.domain] = 1;
    }
    const std::size_t at = std::min(name.find('@'), name.size());
    node_.op_type = name.substr(0, at);
    instance_.graph.opsets[""] = at < name.size() ? number(name.substr(at + 1)) : newest_opset;
  }

  void parse_attributes(std::string_view text) {
    while (!text.empty()) {
      const std::size_t end = std::min(text.find(';'), text.size());
      const std::string_view one = text.substr(0, end);
      const std::size_t equals = one.find('=');
      if (equals == std::string_view::npos) refuse("an attribute has a value");
      node_.attributes[std::string(one.substr(0, equals))] = value_of(one.substr(equals + 1));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
  }

  graph::Attribute value_of(std::string_view text) const {
    if (text.front() == '[') return numbers(text.substr(1, text.size() - 2), ',');
    if (text.find_first_not_of("-0123456789") == std::string_view::npos) return number(text);
    if (text.find_first_not_of("-.0123456789e") == std::string_view::npos) {
      return std::stof(std::string(text));
    }
    return std::string(text);
  }

  ValueId parse_operand(std::string_view word) {
    if (word == "-") return graph::no_value;
    const std::string name = "in" + std::to_string(node_.inputs.size());
    if (word.front() == '[') {
      const auto values = numbers(word.substr(1, word.size() - 2), ',');
      return instance_.graph.add_constant(
          name, Tensor::of_int64({static_cast<std::int64_t>(values.size())}, values));
    }
    const std::size_t equals = word.find('=');
    if (equals != std::string_view::npos) return scalar(name, word, equals);
    DataType type = DataType::float32;
    const std::size_t colon = word.find(':');
    if (colon != std::string_view::npos) {
      type = type_of(word.substr(0, colon));
      word.remove_prefix(colon + 1);
    }
    Instance::Numbers range = usual_numbers(type);
    if (word.front() == '+') {
      range = {0.25, 1.75};
      word.remove_prefix(1);
    }
    const std::size_t mark = word.find_first_of("<~@");
    if (mark != std::string_view::npos) {
      range = numbers_of(word.substr(mark));
      word = word.substr(0, mark);
    }
    Shape shape;
    if (word != ".") shape = numbers(word, 'x');
    const ValueId id = instance_.graph.add_value({name, type, std::move(shape), std::nullopt});
    instance_.graph.inputs.push_back(id);
    instance_.numbers.push_back(range);
    return id;
  }

  ValueId scalar(const std::string& name, std::string_view word, std::size_t equals) {
    const std::string_view text = word.substr(equals + 1);
    if (equals > 0) {
      const auto value = static_cast<std::uint8_t>(number(text));
      if (type_of(word.substr(0, equals)) != DataType::uint8)
        refuse("constants are int64 or uint8");
      return instance_.graph.add_constant(
          name, Tensor::of<std::uint8_t>(DataType::uint8, {}, std::span(&value, 1)));
    }
    if (text.find('.') != std::string_view::npos) {
      const float value = std::stof(std::string(text));
      return instance_.graph.add_constant(name, Tensor::of_float({}, std::span(&value, 1)));
    }
    const std::int64_t value = number(text);
    return instance_.graph.add_constant(name, Tensor::of_int64({}, std::span(&value, 1)));
  }

  DataType type_of(std::string_view letter) const {
    for (const auto& [name, type] : types) {
      if (name == letter) return type;
    }
    refuse(fmt::format("'{}' is no type", letter));
  }

  static Instance::Numbers usual_numbers(DataType type) {
    if (graph::is_floating_point(type)) return {-2, 2};
    if (type == DataType::uint8) return {0, 255};
    return {-9, 9};
  }

  Instance::Numbers numbers_of(std::string_view mark) const {
    if (mark.front() == '@') {
      const std::size_t dots = mark.find("..");
      if (dots == std::string_view::npos) refuse("a range is @LOW..HIGH");
      return {std::stod(std::string(mark.substr(1, dots - 1))),
              std::stod(std::string(mark.substr(dots + 2)))};
    }
    const auto end = static_cast<double>(number(mark.substr(1)));
    return {mark.front() == '~' ? -end : 0, end};
  }

  void add_outputs(std::size_t count) {
    graph::Graph& graph = instance_.graph;
    graph.name = text_;
    for (std::size_t o = 0; o < count; ++o) {
      node_.outputs.push_back(graph.add_value({"out" + std::to_string(o), {}, {}, {}}));
      graph.outputs.push_back(node_.outputs.back());
    }
    const auto inferred = graph::infer_node(graph, node_);
    for (std::size_t o = 0; o < count; ++o) {
      if (o >= inferred.size() || !inferred[o].shape) refuse("an output has no known shape");
      graph.value(node_.outputs[o]).type = inferred[o].type;
      graph.value(node_.outputs[o]).shape = *inferred[o].shape;
    }
  }

  std::string_view text_;
  Instance instance_;
  graph::Node node_;
};

}  // namespace

Instance parse_instance(std::string_view text) { return Parser(text).parse(); }

std::string operator_of(std::string_view text) {
  return std::string(text.substr(0, text.find_first_of("@( ")));
}

std::vector<Tensor> random_inputs(const Instance& instance, const sharding::ShardRunner& runner,
                                  std::mt19937& random) {
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < instance.graph.inputs.size(); ++i) {
    const graph::Value& value = instance.graph.value(instance.graph.inputs[i]);
    const auto& range = instance.numbers[i];
    inputs.push_back(runner.random(value.type, value.shape, range.low, range.high, random));
  }
  return inputs;
}

}  // namespace autopar::rule_check
