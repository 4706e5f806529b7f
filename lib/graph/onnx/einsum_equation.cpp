#include "graph/onnx/einsum_equation.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "graph/onnx/attribute_proto.h"

namespace autopar::graph {
namespace {

/// One operand's or the result's dimensions: letters before and behind an ellipsis.
struct Term {
  std::string before;
  std::string behind;
  bool has_ellipsis = false;

  std::string letters() const { return before + behind; }
};

struct Equation {
  std::vector<Term> operands;
  std::optional<Term> result;
};

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

Term parse_term(std::string_view text) {
  Term term;
  const std::size_t dots = text.find('.');
  term.has_ellipsis = dots != std::string_view::npos;
  term.before = text.substr(0, dots);
  if (term.has_ellipsis) {
    if (text.substr(dots, 3) != "...") fail("its equation has dots that are no ellipsis '...'");
    term.behind = text.substr(dots + 3);
  }
  if (!std::ranges::all_of(term.letters(), is_letter))
    fail("its equation has a term '{}', which is not letters with one ellipsis", text);
  return term;
}

/// Each letter of the result comes once there, and in some operand; an ellipsis, too.
void check_result(const Equation& parsed) {
  const std::string result = parsed.result->letters();
  const auto any_has = [&](const auto& has) { return std::ranges::any_of(parsed.operands, has); };
  for (const char letter : result) {
    if (std::ranges::count(result, letter) > 1)
      fail("the result of its equation has '{}' twice", letter);
    if (!any_has(
            [&](const Term& term) { return term.letters().find(letter) != std::string::npos; }))
      fail("the result of its equation has '{}', which no operand has", letter);
  }
  if (parsed.result->has_ellipsis && !any_has([](const Term& term) { return term.has_ellipsis; }))
    fail("the result of its equation has an ellipsis, which no operand has");
}

Equation parse(std::string_view equation, std::size_t operands) {
  std::string text(equation);
  std::erase(text, ' ');
  Equation parsed;
  std::string_view rest = text;
  if (const std::size_t arrow = rest.find("->"); arrow != std::string_view::npos) {
    parsed.result = parse_term(rest.substr(arrow + 2));
    rest = rest.substr(0, arrow);
  }
  for (bool is_last = false; !is_last;) {
    const std::size_t comma = rest.find(',');
    parsed.operands.push_back(parse_term(rest.substr(0, comma)));
    is_last = comma == std::string_view::npos;
    if (!is_last) rest.remove_prefix(comma + 1);
  }
  if (parsed.operands.size() != operands)
    fail("its equation '{}' has {} operands, the node {}", equation, parsed.operands.size(),
         operands);
  if (parsed.result) check_result(parsed);
  return parsed;
}

/// Keeps the extents of letters, and of an ellipsis' dimensions from the last on.
class Extents {
 public:
  explicit Extents(std::string_view equation) : equation_(equation) {}

  void add(char letter, std::int64_t extent) { join(letters_[letter], extent, letter); }
  void add_of_ellipsis(std::size_t from_last, std::int64_t extent) {
    join(ellipsis_[from_last], extent, '.');
  }

 private:
  void join(std::optional<std::int64_t>& known, std::int64_t extent, char letter) const {
    if (known && *known != extent && *known != 1 && extent != 1)
      fail("'{}' of '{}' is both {} and {}", letter == '.' ? "..." : std::string{letter}, equation_,
           *known, extent);
    if (!known || *known == 1) known = extent;
  }

  std::string_view equation_;
  std::map<char, std::optional<std::int64_t>> letters_;
  std::map<std::size_t, std::optional<std::int64_t>> ellipsis_;
};

using Nodes = google::protobuf::RepeatedPtrField<onnx::NodeProto>;

bool are_sound(const Nodes& nodes);

bool is_sound(const onnx::NodeProto& node) {
  for (const onnx::AttributeProto& attribute : node.attribute())
    if (!are_sound(attribute.g().node()) ||
        !std::ranges::all_of(attribute.graphs(),
                             [](const onnx::GraphProto& graph) { return are_sound(graph.node()); }))
      return false;
  if (node.op_type() != "Einsum") return true;
  const auto* equation = find_attribute(node, "equation");
  if (equation == nullptr || !equation->ref_attr_name().empty()) return false;
  try {
    check_einsum_equation(equation->s(), static_cast<std::size_t>(node.input_size()));
  } catch (const Error&) {
    return false;
  }
  return true;
}

bool are_sound(const Nodes& nodes) { return std::ranges::all_of(nodes, is_sound); }

}  // namespace

void check_einsum_equation(std::string_view equation, std::size_t operands) {
  parse(equation, operands);
}

void check_einsum_equation(std::string_view equation, std::span<const Shape> operands) {
  const Equation parsed = parse(equation, operands.size());
  Extents extents(equation);
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Term& term = parsed.operands[i];
    const Shape& shape = operands[i];
    const std::size_t letters = term.letters().size();
    if (letters > shape.size() || (!term.has_ellipsis && letters != shape.size()))
      fail("operand {} of its equation '{}' has {} letters, its input is {}", i, equation, letters,
           to_string(shape));
    const std::size_t in_ellipsis = shape.size() - letters;
    for (std::size_t d = 0; d < term.before.size(); ++d) extents.add(term.before[d], shape[d]);
    for (std::size_t d = 0; d < in_ellipsis; ++d)
      extents.add_of_ellipsis(in_ellipsis - 1 - d, shape[term.before.size() + d]);
    for (std::size_t d = 0; d < term.behind.size(); ++d)
      extents.add(term.behind[d], shape[term.before.size() + in_ellipsis + d]);
  }
}

bool has_einsum_equations(const onnx::ModelProto& model) {
  return are_sound(model.graph().node()) &&
         std::ranges::all_of(model.functions(), [](const onnx::FunctionProto& function) {
           return are_sound(function.node());
         });
}

}  // namespace autopar::graph
