#include <algorithm>
#include <cctype>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "runtime/kernels/common/composite.h"
#include "runtime/kernels/product/kernels.h"
#include "runtime/passes/passes.h"

namespace autopar::runtime {
namespace {

using Part = Composite::Part;

/// A dimension of an Einsum: a letter of its equation, or one that an ellipsis stands for.
using Label = int;
using Labels = std::vector<Label>;

/// A label for each dimension.
struct Equation {
  std::vector<Labels> operands;
  Labels output;
};

/// The label of an ellipsis' dimension, counted from its last.
Label ellipsis_label(std::size_t from_last) { return -1 - static_cast<int>(from_last); }

/// One term of an equation; its ellipsis, if there is one, stands for so many dimensions.
Labels labels_of(std::string_view term, std::size_t ellipsis_dimensions) {
  Labels labels;
  bool has_ellipsis = false;
  for (std::size_t at = 0; at < term.size(); ++at) {
    if (std::isalpha(static_cast<unsigned char>(term[at])) != 0) {
      labels.push_back(term[at]);
      continue;
    }
    if (has_ellipsis || term.substr(at, 3) != "...")
      fail("'{}' of the equation is not letters with one ellipsis", term);
    has_ellipsis = true;
    at += 2;
    for (std::size_t d = ellipsis_dimensions; d-- > 0;) labels.push_back(ellipsis_label(d));
  }
  return labels;
}

std::size_t letters_in(std::string_view term) {
  return static_cast<std::size_t>(std::ranges::count_if(
      term, [](char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }));
}

std::vector<std::string_view> split_terms(std::string_view terms) {
  std::vector<std::string_view> result;
  for (;;) {
    const std::size_t comma = terms.find(',');
    result.push_back(terms.substr(0, comma));
    if (comma == std::string_view::npos) return result;
    terms.remove_prefix(comma + 1);
  }
}

/// Throws Error for what is no equation on such operands. Spaces mean nothing; without "->" the
/// result has the ellipsis first and then, in alphabetical order, the letters that appear once.
/// Dimensions of extent 1 broadcast, as NumPy lets them.
Equation parsed(std::string_view equation, std::span<const TensorView> inputs) {
  Equation result;
  std::string text(equation);
  std::erase(text, ' ');
  const std::size_t arrow = text.find("->");
  const std::string terms = text.substr(0, arrow);
  const auto names = split_terms(terms);
  if (names.size() != inputs.size())
    fail("equation '{}' has {} operands, not {}", equation, names.size(), inputs.size());
  std::size_t most_in_ellipsis = 0;
  std::map<Label, int> uses;
  std::map<Label, std::int64_t> extents;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const Shape& shape = inputs[i].shape;
    const std::size_t letters = letters_in(names[i]);
    const bool has_ellipsis = names[i].find('.') != std::string_view::npos;
    if (letters > shape.size() || (!has_ellipsis && letters != shape.size()))
      fail("'{}' of equation '{}' does not fit shape {}", names[i], equation,
           graph::to_string(shape));
    most_in_ellipsis = std::max(most_in_ellipsis, shape.size() - letters);
    result.operands.push_back(labels_of(names[i], shape.size() - letters));
    for (std::size_t d = 0; d < shape.size(); ++d) {
      const Label label = result.operands.back()[d];
      ++uses[label];
      std::int64_t& extent = extents.try_emplace(label, 1).first->second;
      if (extent == 1)
        extent = shape[d];
      else if (shape[d] != 1 && shape[d] != extent)
        fail("a dimension of equation '{}' is both {} and {}", equation, extent, shape[d]);
    }
  }
  if (arrow != std::string::npos) {
    result.output = labels_of(std::string_view(text).substr(arrow + 2), most_in_ellipsis);
  } else {
    for (std::size_t d = most_in_ellipsis; d-- > 0;) result.output.push_back(ellipsis_label(d));
    for (const auto& [label, count] : uses)
      if (label > 0 && count == 1) result.output.push_back(label);
  }
  for (const Label label : result.output)
    if (!extents.contains(label) || std::ranges::count(result.output, label) != 1)
      fail("the result of equation '{}' has a dimension twice, or one that no operand has",
           equation);
  return result;
}

Equation equation_of(const KernelRequest& request) {
  try {
    return parsed(request.node.string_attribute("equation", ""), request.inputs);
  } catch (const Error& error) {
    fail("node '{}': {}", request.node.name, error.what());
  }
}

bool has(const Labels& labels, Label label) {
  return std::ranges::find(labels, label) != labels.end();
}
Labels joined(Labels first, const Labels& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

/// A tensor whose dimensions are labelled, none twice.
struct Operand {
  Part part;
  Labels labels;

  std::int64_t extent(Label label) const {
    return part.shape[static_cast<std::size_t>(std::ranges::find(labels, label) - labels.begin())];
  }
  std::int64_t extent(const Labels& group) const {
    std::int64_t product = 1;
    for (const Label label : group) product *= extent(label);
    return product;
  }
};

/// An input, of dimensions that it has twice the diagonal.
Operand input(Composite& composite, std::size_t i, const Labels& labels) {
  const Part part = composite.input(i);
  const Shape strides = row_major_strides(part.shape);
  Labels once;
  Shape shape;
  std::vector<std::int64_t> steps;
  for (std::size_t d = 0; d < labels.size(); ++d) {
    const auto found = std::ranges::find(once, labels[d]);
    const auto place = static_cast<std::size_t>(found - once.begin());
    if (found == once.end()) {
      once.push_back(labels[d]);
      shape.push_back(part.shape[d]);
      steps.push_back(strides[d]);
    } else if (part.shape[d] != 1) {
      // Where the other one was 1 it broadcasts along this one.
      steps[place] = shape[place] == 1 ? strides[d] : steps[place] + strides[d];
      shape[place] = part.shape[d];
    }
  }
  if (once.size() == labels.size()) return {part, labels};
  const Part diagonal = composite.temporary(part.type, shape);
  composite.add_copy(part, diagonal, {shape, steps, row_major_strides(shape)});
  return {diagonal, once};
}

/// Writes the dimensions in another order, and those that are missing repeated.
void copy(Composite& composite, const Operand& from, const Labels& labels, const Part& to) {
  const Shape strides = row_major_strides(from.part.shape);
  std::vector<std::int64_t> steps;
  for (std::size_t d = 0; d < labels.size(); ++d) {
    const auto found = std::ranges::find(from.labels, labels[d]);
    const auto place = static_cast<std::size_t>(found - from.labels.begin());
    const bool repeats = found == from.labels.end() || from.part.shape[place] != to.shape[d];
    steps.push_back(repeats ? 0 : strides[place]);
  }
  composite.add_copy(from.part, to, {to.shape, steps, row_major_strides(to.shape)});
}

/// The dimensions in this order, which may leave out those of extent 1.
Operand ordered(Composite& composite, const Operand& from, const Labels& labels) {
  Labels present = from.labels;
  std::erase_if(present, [&](Label label) { return !has(labels, label); });
  Shape shape;
  for (const Label label : labels) shape.push_back(from.extent(label));
  if (present == labels) return {Composite::reshaped(from.part, shape), labels};
  const Part part = composite.temporary(from.part.type, shape);
  copy(composite, from, labels, part);
  return {part, labels};
}

/// Sums over the dimensions that are not needed; those of extent 1 are dropped where the other
/// operand has them longer.
Operand summed(Composite& composite, const Operand& from, const Labels& needed) {
  std::vector<std::int64_t> axes;
  Labels kept;
  Shape shape;
  for (std::size_t d = 0; d < from.labels.size(); ++d) {
    if (!has(needed, from.labels[d])) {
      axes.push_back(static_cast<std::int64_t>(d));
      continue;
    }
    kept.push_back(from.labels[d]);
    shape.push_back(from.part.shape[d]);
  }
  if (axes.empty()) return from;
  if (graph::num_elements(shape) == graph::num_elements(from.part.shape))
    return {Composite::reshaped(from.part, shape), kept};
  const Part part = composite.temporary(from.part.type, shape);
  const Shape count{static_cast<std::int64_t>(axes.size())};
  composite.add("", "ReduceSum", {{"keepdims", std::int64_t{0}}},
                {from.part, composite.constant(graph::Tensor::of_int64(count, axes))}, {part});
  return {part, kept};
}

Operand without_broadcast(Composite& composite, const Operand& operand, const Operand& other) {
  Labels labels = operand.labels;
  std::erase_if(labels, [&](Label label) {
    return operand.extent(label) == 1 && has(other.labels, label) && other.extent(label) != 1;
  });
  return ordered(composite, operand, labels);
}

/// The dimensions of a product by where they are: in both operands (summed over or not), in the
/// first or in the second.
struct Groups {
  Labels batch;
  Labels rows;
  Labels columns;
  Labels depth;
};

void multiply(Composite& composite, const Operand& a, const Operand& b, const Groups& of,
              const Part& result) {
  const auto& [batch, rows, columns, depth] = of;
  const bool sums = !depth.empty();
  const bool swaps_a = sums && !rows.empty() && a.labels == joined(joined(batch, depth), rows);
  const bool swaps_b = sums && b.labels == joined(joined(batch, columns), depth);
  const Operand left = swaps_a ? a : ordered(composite, a, joined(joined(batch, rows), depth));
  const Operand right = swaps_b ? b : ordered(composite, b, joined(joined(batch, depth), columns));
  const std::int64_t m = a.extent(rows);
  const std::int64_t n = b.extent(columns);
  const std::int64_t k = a.extent(depth);
  const auto matrices = [count = a.extent(batch)](const Part& part, std::int64_t outer,
                                                  std::int64_t inner) {
    return Composite::reshaped(part, {count, outer, inner});
  };
  const std::vector<Part> factors = {
      swaps_a ? matrices(left.part, k, m) : matrices(left.part, m, k),
      swaps_b ? matrices(right.part, n, k) : matrices(right.part, k, n)};
  if (sums)
    composite.add(passes::internal_domain, "FusedMatMul",
                  {{"transA", std::int64_t{swaps_a}}, {"transB", std::int64_t{swaps_b}}}, factors,
                  {matrices(result, m, n)});
  else
    composite.add("", "Mul", {}, factors, {matrices(result, m, n)});
}

/// The two operands' product, summed over what only they have. The last one is the output.
Operand contracted(Composite& composite, Operand a, Operand b, const Labels& needed, bool is_last) {
  const auto sum_alone = [&] {
    a = summed(composite, a, joined(needed, b.labels));
    b = summed(composite, b, joined(needed, a.labels));
  };
  sum_alone();
  const Operand whole_a = a;
  a = without_broadcast(composite, a, b);
  b = without_broadcast(composite, b, whole_a);
  sum_alone();  // dimensions that a was 1 along may be b's alone now
  Groups of;
  for (const Label label : a.labels)
    (!has(b.labels, label) ? of.rows : (has(needed, label) ? of.batch : of.depth)).push_back(label);
  for (const Label label : b.labels)
    if (!has(a.labels, label)) of.columns.push_back(label);
  const Labels labels = joined(joined(of.batch, of.rows), of.columns);
  Shape shape;
  for (const Label label : labels) shape.push_back((has(a.labels, label) ? a : b).extent(label));
  const Part output = composite.output(0);
  const bool is_output = is_last && labels == needed && shape == output.shape;
  const Part result = is_output ? output : composite.temporary(a.part.type, shape);
  multiply(composite, a, b, of, result);
  return {result, labels};
}

}  // namespace

std::unique_ptr<Kernel> make_einsum(const KernelRequest& request) {
  const auto& [operands, output] = equation_of(request);
  Composite composite(request);
  Operand result = input(composite, 0, operands[0]);
  for (std::size_t next = 1; next < operands.size(); ++next) {
    Labels needed = output;
    for (std::size_t later = next + 1; later < operands.size(); ++later)
      needed = joined(needed, operands[later]);
    result = contracted(composite, result, input(composite, next, operands[next]), needed,
                        next + 1 == operands.size());
  }
  result = summed(composite, result, output);
  if (result.part.place != Part::Place::output || result.labels != output)
    copy(composite, result, output, composite.output(0));
  return composite.finish();
}

}  // namespace autopar::runtime
