
#include <utility>
#include <vector>

#include "base/error.h"
#include "runtime/kernels/common/composite.h"
#include "runtime/kernels/recurrent/kernels.h"
#include "runtime/passes/passes.h"

namespace autopar::runtime {
namespace {

using Part = Composite::Part;

/// What the three operators have in common. Sizes in elements.
struct RecurrentShape {
  std::int64_t gates = 1;
  std::int64_t steps = 0;
  std::int64_t batch = 0;
  std::int64_t inputs = 0;
  std::int64_t hidden = 0;
  std::int64_t directions = 1;
  bool is_batch_first = false;
  bool starts_reversed = false;
};

RecurrentShape shape_of(const KernelRequest& request, std::int64_t gates) {
  const graph::Node& node = request.node;
  RecurrentShape shape;
  shape.gates = gates;
  shape.is_batch_first = node.int_attribute("layout", 0) != 0;
  const std::string direction = node.string_attribute("direction", "forward");
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional")
    fail("node '{}': {} knows no direction '{}'", node.name, node.op_type, direction);
  shape.directions = direction == "bidirectional" ? 2 : 1;
  shape.starts_reversed = direction == "reverse";
  const Shape& x = request.inputs.at(0).shape;
  const Shape& r = request.inputs.at(2).shape;
  if (x.size() != 3 || r.size() != 3)
    fail("node '{}': {} reads inputs of three dimensions", node.name, node.op_type);
  shape.steps = x[shape.is_batch_first ? 1 : 0];
  shape.batch = x[shape.is_batch_first ? 0 : 1];
  shape.inputs = x[2];
  shape.hidden = r[2];
  const std::int64_t rows = gates * shape.hidden;
  if (request.inputs.at(1).shape != Shape{shape.directions, rows, shape.inputs} ||
      r != Shape{shape.directions, rows, shape.hidden})
    fail("node '{}': the weights of {}, {} and {}, do not fit its input {}", node.name,
         node.op_type, graph::to_string(request.inputs[1].shape), graph::to_string(r),
         graph::to_string(x));
  return shape;
}

class RecurrentMaker {
 public:
  RecurrentMaker(const KernelRequest& request, const char* kind, std::int64_t gates)
      : node_(request.node),
        type_(request.inputs.at(0).type),
        kind_(kind),
        shape_(shape_of(request, gates)),
        rows_(gates * shape_.hidden),
        composite_(request) {
    resets_before_product_ = kind_ == "gru" && node_.int_attribute("linear_before_reset", 0) == 0;
  }

  std::unique_ptr<Kernel> make() {
    for (std::int64_t d = 0; d < shape_.directions; ++d) make_direction(d);
    return composite_.finish();
  }

 private:
  /// A product of the hidden state, or of what the reset gate leaves of it, with recurrent weights.
  struct StateProduct {
    Part state;
    Part weights;
    Part gates;
    std::shared_ptr<Kernel> kernel;
  };
  /// One direction under way.
  struct Direction {
    std::int64_t index = 0;
    Part w_bias;
    Part r_bias;
    Part peepholes;
    Part hidden;  ///< the state
    Part cell;    ///< the LSTM's
    Part x_gates;
    StateProduct product;
    StateProduct reset_product;  ///< of the GRU that resets before it
    Part update;                 ///< its update gate
  };

  /// A part of an input. On a GPU kernels want it where a tensor might begin: it is copied there.
  Part slice(std::size_t input, std::int64_t element, const Shape& shape) {
    const Part part = Composite::from_element(composite_.input(input), element, shape);
    if (part.byte_offset % 64 == 0 || composite_.device().shares_host_memory()) return part;
    const Part copy = composite_.temporary(part.type, shape);
    composite_.add_copy(part, copy, {{graph::num_elements(shape)}, {1}, {1}});
    return copy;
  }

  StateProduct product_of(const Part& state, const Part& weights) {
    StateProduct product{state, weights, {}, nullptr};
    product.gates = composite_.temporary(type_, {shape_.batch, weights.shape[0]});
    product.kernel = composite_.make(passes::internal_domain, "FusedMatMul", transposed_,
                                     {state, weights}, {product.gates});
    return product;
  }
  void append(const StateProduct& product) {
    composite_.append(product.kernel, {product.state, product.weights}, {product.gates});
  }

  // States are [directions, batch, hidden], or batch first.
  std::int64_t state_offset(std::int64_t d) const {
    return d * shape_.hidden * (shape_.is_batch_first ? 1 : shape_.batch);
  }
  std::vector<std::int64_t> state_strides() const {
    return {shape_.hidden * (shape_.is_batch_first ? shape_.directions : 1), 1};
  }

  /// A state as it begins: an input, or zeros.
  Part initial(std::size_t input, std::int64_t d) {
    const Shape extents{shape_.batch, shape_.hidden};
    const Part state = composite_.temporary(type_, extents);
    if (composite_.has_input(input)) {
      const Part from = Composite::from_element(composite_.input(input), state_offset(d), extents);
      composite_.add_copy(from, state, {extents, state_strides(), {shape_.hidden, 1}});
    } else {
      const Part zero = composite_.constant(graph::Tensor::zeros(type_, {1}));
      composite_.add_copy(zero, state, {extents, {0, 0}, {shape_.hidden, 1}});
    }
    return state;
  }
  void store(const Part& state, std::size_t output, std::int64_t d) {
    if (!composite_.has_output(output)) return;
    const Shape extents{shape_.batch, shape_.hidden};
    const Part to = Composite::from_element(composite_.output(output), state_offset(d), extents);
    composite_.add_copy(state, to, {extents, {shape_.hidden, 1}, state_strides()});
  }

  void make_direction(std::int64_t d) {
    Direction direction;
    direction.index = d;
    const std::int64_t all_steps = shape_.steps * shape_.batch;
    direction.x_gates = composite_.temporary(type_, {all_steps, rows_});
    composite_.add(passes::internal_domain, "FusedMatMul", transposed_,
                   {Composite::reshaped(composite_.input(0), {all_steps, shape_.inputs}),
                    slice(1, d * rows_ * shape_.inputs, {rows_, shape_.inputs})},
                   {direction.x_gates});
    if (composite_.has_input(3)) {
      direction.w_bias = slice(3, d * 2 * rows_, {rows_});
      direction.r_bias = slice(3, (d * 2 + 1) * rows_, {rows_});
    }
    direction.hidden = initial(5, d);
    if (kind_ == "lstm") {
      direction.cell = initial(6, d);
      if (composite_.has_input(7))
        direction.peepholes = slice(7, d * 3 * shape_.hidden, {3, shape_.hidden});
    }
    const std::int64_t first = d * rows_ * shape_.hidden;
    const std::int64_t at_once = resets_before_product_ ? 2 * shape_.hidden : rows_;
    direction.product = product_of(direction.hidden, slice(2, first, {at_once, shape_.hidden}));
    if (resets_before_product_) {
      direction.update = composite_.temporary(type_, {shape_.batch, shape_.hidden});
      direction.reset_product =
          product_of(composite_.temporary(type_, {shape_.batch, shape_.hidden}),
                     slice(2, first + at_once * shape_.hidden, {shape_.hidden, shape_.hidden}));
    }
    const bool is_reversed = shape_.starts_reversed || d == 1;
    for (std::int64_t i = 0; i < shape_.steps; ++i)
      make_step(direction, is_reversed ? shape_.steps - 1 - i : i);
    store(direction.hidden, 1, d);
    if (kind_ == "lstm") store(direction.cell, 2, d);
  }

  void make_step(const Direction& direction, std::int64_t step) {
    append(direction.product);
    if (!resets_before_product_)
      return add_cell(direction, step, kind_, direction.product.gates, direction.cell,
                      direction.hidden, direction.cell);
    add_cell(direction, step, "gru_gates", direction.product.gates, {},
             direction.reset_product.state, direction.update);
    append(direction.reset_product);
    add_cell(direction, step, "gru_candidate", direction.reset_product.gates, direction.update,
             direction.hidden, {});
  }

  void add_cell(const Direction& direction, std::int64_t step, const std::string& kind,
                const Part& state_gates, const Part& cell, const Part& new_hidden,
                const Part& new_cell) {
    // The step's elements, and from one element of the batch to the next.
    const std::int64_t apart = shape_.is_batch_first ? 1 : shape_.batch;
    const Part x_gates =
        Composite::from_element(direction.x_gates, step * apart * rows_, {shape_.batch, rows_});
    Part y;
    if (composite_.has_output(0) && kind != "gru_gates")
      y = Composite::from_element(
          composite_.output(0),
          step * shape_.directions * apart * shape_.hidden + state_offset(direction.index),
          {shape_.batch, shape_.hidden});
    auto values = node_.attributes;
    values["kind"] = kind;
    values["direction"] = direction.index;
    values["hidden_size"] = shape_.hidden;
    values["step"] = step;
    values["x_stride"] = rows_ * (shape_.is_batch_first ? shape_.steps : 1);
    values["y_stride"] =
        shape_.hidden * (shape_.is_batch_first ? shape_.steps * shape_.directions : 1);
    composite_.add(passes::internal_domain, "RecurrentCell", values,
                   {x_gates, state_gates, direction.w_bias, direction.r_bias, direction.hidden,
                    cell, direction.peepholes, composite_.input(4)},
                   {new_hidden, new_cell, y});
  }

  const std::map<std::string, graph::Attribute> transposed_{{"transB", std::int64_t{1}}};
  const graph::Node& node_;
  DataType type_;
  std::string kind_;
  RecurrentShape shape_;
  std::int64_t rows_;  ///< of a direction's weights: all gates'
  Composite composite_;
  bool resets_before_product_ = false;
};

}  // namespace

std::unique_ptr<Kernel> make_rnn(const KernelRequest& request) {
  return RecurrentMaker(request, "rnn", 1).make();
}
std::unique_ptr<Kernel> make_gru(const KernelRequest& request) {
  return RecurrentMaker(request, "gru", 3).make();
}
std::unique_ptr<Kernel> make_lstm(const KernelRequest& request) {
  return RecurrentMaker(request, "lstm", 4).make();
}

}  // namespace autopar::runtime
