
#include <algorithm>
#include <utility>

#include "base/error.h"
#include "runtime/kernels/common/composite.h"
#include "runtime/kernels/product/einsum_equation.h"
#include "runtime/kernels/product/kernels.h"
#include "runtime/passes/passes.h"

namespace autopar::runtime {
namespace {

using Labels = std::vector<EinsumLabel>;
using Part = Composite::Part;

bool has(const Labels& labels, EinsumLabel label) {
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

  std::int64_t extent(EinsumLabel label) const {
    return part.shape[static_cast<std::size_t>(std::ranges::find(labels, label) - labels.begin())];
  }
  std::int64_t extent(const Labels& group) const {
    std::int64_t product = 1;
    for (const EinsumLabel label : group) product *= extent(label);
    return product;
  }
};

class EinsumMaker {
 public:
  explicit EinsumMaker(const KernelRequest& request)
      : composite_(request), equation_(equation_of(request)) {}

  std::unique_ptr<Kernel> make() {
    Operand result = operand(0);
    for (std::size_t next = 1; next < equation_.operands.size(); ++next) {
      Labels needed = equation_.output;
      for (std::size_t later = next + 1; later < equation_.operands.size(); ++later)
        needed = joined(needed, equation_.operands[later]);
      is_last_ = next + 1 == equation_.operands.size();
      result = contracted(result, operand(next), needed);
    }
    result = summed(result, equation_.output);
    if (result.part.place != Part::Place::output || result.labels != equation_.output)
      copy(result, equation_.output, composite_.output(0));
    return composite_.finish();
  }

 private:
  static EinsumEquation equation_of(const KernelRequest& request) {
    std::vector<Shape> shapes;
    for (const TensorView& input : request.inputs) shapes.push_back(input.shape);
    try {
      return {request.node.string_attribute("equation", ""), shapes};
    } catch (const Error& error) {
      fail("node '{}': {}", request.node.name, error.what());
    }
  }

  /// An input, of dimensions that it has twice the diagonal.
  Operand operand(std::size_t i) {
    const Part part = composite_.input(i);
    const Labels& labels = equation_.operands[i];
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
    const Part diagonal = composite_.temporary(part.type, shape);
    composite_.add_copy(part, diagonal, {shape, steps, row_major_strides(shape)});
    return {diagonal, once};
  }

  /// Writes the dimensions in another order, and those that are missing repeated.
  void copy(const Operand& from, const Labels& labels, const Part& to) {
    const Shape strides = row_major_strides(from.part.shape);
    std::vector<std::int64_t> steps;
    for (std::size_t d = 0; d < labels.size(); ++d) {
      const auto found = std::ranges::find(from.labels, labels[d]);
      const auto place = static_cast<std::size_t>(found - from.labels.begin());
      const bool repeats = found == from.labels.end() || from.part.shape[place] != to.shape[d];
      steps.push_back(repeats ? 0 : strides[place]);
    }
    composite_.add_copy(from.part, to, {to.shape, steps, row_major_strides(to.shape)});
  }

  /// The dimensions in this order, which may leave out those of extent 1.
  Operand ordered(const Operand& from, const Labels& labels) {
    Labels present = from.labels;
    std::erase_if(present, [&](EinsumLabel label) { return !has(labels, label); });
    Shape shape;
    for (const EinsumLabel label : labels) shape.push_back(from.extent(label));
    if (present == labels) return {Composite::reshaped(from.part, shape), labels};
    const Part part = composite_.temporary(from.part.type, shape);
    copy(from, labels, part);
    return {part, labels};
  }

  /// Sums over the dimensions that are not needed; those of extent 1 are dropped where the other
  /// operand has them longer.
  Operand summed(const Operand& from, const Labels& needed) {
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
    const Part part = composite_.temporary(from.part.type, shape);
    const Shape count{static_cast<std::int64_t>(axes.size())};
    composite_.add("", "ReduceSum", {{"keepdims", std::int64_t{0}}},
                   {from.part, composite_.constant(graph::Tensor::of_int64(count, axes))}, {part});
    return {part, kept};
  }

  Operand without_broadcast(const Operand& operand, const Operand& other) {
    Labels labels = operand.labels;
    std::erase_if(labels, [&](EinsumLabel label) {
      return operand.extent(label) == 1 && has(other.labels, label) && other.extent(label) != 1;
    });
    return ordered(operand, labels);
  }

  /// The two operands' product, summed over what only they have.
  Operand contracted(Operand a, Operand b, const Labels& needed) {
    a = summed(a, joined(needed, b.labels));
    b = summed(b, joined(needed, a.labels));
    const Operand whole_a = a;
    a = without_broadcast(a, b);
    b = without_broadcast(b, whole_a);
    // Dimensions that a was 1 along may be b's alone now.
    a = summed(a, joined(needed, b.labels));
    b = summed(b, joined(needed, a.labels));
    Labels batch;
    Labels rows;
    Labels columns;
    Labels depth;
    for (const EinsumLabel label : a.labels) {
      if (!has(b.labels, label))
        rows.push_back(label);
      else
        (has(needed, label) ? batch : depth).push_back(label);
    }
    for (const EinsumLabel label : b.labels)
      if (!has(a.labels, label)) columns.push_back(label);
    return depth.empty() ? multiplied(a, b, batch, rows, columns)
                         : product(a, b, batch, rows, columns, depth);
  }

  Operand result_of(const Operand& a, const Operand& b, const Labels& labels) {
    Shape shape;
    for (const EinsumLabel label : labels)
      shape.push_back(has(a.labels, label) ? a.extent(label) : b.extent(label));
    const Part output = composite_.output(0);
    if (labels == equation_.output && shape == output.shape && is_last_) return {output, labels};
    return {composite_.temporary(a.part.type, shape), labels};
  }

  Operand multiplied(const Operand& a, const Operand& b, const Labels& batch, const Labels& rows,
                     const Labels& columns) {
    const Operand left = ordered(a, joined(batch, rows));
    const Operand right = ordered(b, joined(batch, columns));
    const Operand result = result_of(a, b, joined(joined(batch, rows), columns));
    const std::int64_t count = a.extent(batch);
    const std::int64_t m = a.extent(rows);
    const std::int64_t n = b.extent(columns);
    composite_.add("", "Mul", {},
                   {Composite::reshaped(left.part, {count, m, 1}),
                    Composite::reshaped(right.part, {count, 1, n})},
                   {Composite::reshaped(result.part, {count, m, n})});
    return result;
  }

  Operand product(const Operand& a, const Operand& b, const Labels& batch, const Labels& rows,
                  const Labels& columns, const Labels& depth) {
    const bool swaps_a = !rows.empty() && a.labels == joined(joined(batch, depth), rows);
    const bool swaps_b = b.labels == joined(joined(batch, columns), depth);
    const Operand left = swaps_a ? a : ordered(a, joined(joined(batch, rows), depth));
    const Operand right = swaps_b ? b : ordered(b, joined(joined(batch, depth), columns));
    const Operand result = result_of(a, b, joined(joined(batch, rows), columns));
    const std::int64_t count = a.extent(batch);
    const std::int64_t m = a.extent(rows);
    const std::int64_t n = b.extent(columns);
    const std::int64_t k = a.extent(depth);
    const auto matrices = [count](const Part& part, std::int64_t outer, std::int64_t inner) {
      return Composite::reshaped(part, {count, outer, inner});
    };
    composite_.add(passes::internal_domain, "FusedMatMul",
                   {{"transA", std::int64_t{swaps_a}}, {"transB", std::int64_t{swaps_b}}},
                   {swaps_a ? matrices(left.part, k, m) : matrices(left.part, m, k),
                    swaps_b ? matrices(right.part, n, k) : matrices(right.part, k, n)},
                   {matrices(result.part, m, n)});
    return result;
  }

  Composite composite_;
  EinsumEquation equation_;
  bool is_last_ = false;  ///< whether the product under way is the last
};

}  // namespace

std::unique_ptr<Kernel> make_einsum(const KernelRequest& request) {
  return EinsumMaker(request).make();
}

}  // namespace autopar::runtime
