#include <vector>

#include "base/error.h"
#include "runtime/kernels/common/composite.h"
#include "runtime/kernels/recurrent/kernels.h"
#include "runtime/passes/passes.h"

namespace autopar::runtime {
namespace {

using Part = Composite::Part;

/// A step is some kernels, with memory of their own.
constexpr std::int64_t most_steps = 1 << 20;
/// Products of more rows are better left to the device's library.
constexpr std::int64_t most_swept_batch = 16;

/// What the three operators have in common. Sizes in elements.
struct Recurrence {
  const graph::Node& node;
  std::string kind;
  DataType type;
  std::int64_t rows = 0;  ///< of a direction's weights: all gates'
  std::int64_t steps = 0;
  std::int64_t batch = 0;
  std::int64_t inputs = 0;
  std::int64_t hidden = 0;
  std::int64_t directions = 1;
  bool is_batch_first = false;
  bool starts_reversed = false;
  bool resets_before_product = false;

  Shape state() const { return {batch, hidden}; }
  // States are [directions, batch, hidden], or batch first.
  std::int64_t state_offset(std::int64_t d) const {
    return d * hidden * (is_batch_first ? 1 : batch);
  }
  std::vector<std::int64_t> state_strides() const {
    return {hidden * (is_batch_first ? directions : 1), 1};
  }
};

Recurrence recurrence_of(const KernelRequest& request, const char* kind, std::int64_t gates) {
  const graph::Node& node = request.node;
  Recurrence of{.node = node, .kind = kind, .type = request.inputs.at(0).type};
  of.resets_before_product = of.kind == "gru" && node.int_attribute("linear_before_reset", 0) == 0;
  of.is_batch_first = node.int_attribute("layout", 0) != 0;
  const std::string direction = node.string_attribute("direction", "forward");
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional")
    fail("node '{}': {} knows no direction '{}'", node.name, node.op_type, direction);
  of.directions = direction == "bidirectional" ? 2 : 1;
  of.starts_reversed = direction == "reverse";
  const Shape& x = request.inputs[0].shape;
  const Shape& r = request.inputs.at(2).shape;
  if (x.size() != 3 || r.size() != 3)
    fail("node '{}': {} reads inputs of three dimensions", node.name, node.op_type);
  of.steps = x[of.is_batch_first ? 1 : 0];
  if (of.steps > most_steps)
    fail("node '{}': {} steps are more than {} takes, {}", node.name, of.steps, node.op_type,
         most_steps);
  of.batch = x[of.is_batch_first ? 0 : 1];
  of.inputs = x[2];
  of.hidden = r[2];
  of.rows = gates * of.hidden;
  if (request.inputs.at(1).shape != Shape{of.directions, of.rows, of.inputs} ||
      r != Shape{of.directions, of.rows, of.hidden})
    fail("node '{}': the weights of {}, {} and {}, do not fit its input {}", node.name,
         node.op_type, graph::to_string(request.inputs[1].shape), graph::to_string(r),
         graph::to_string(x));
  return of;
}

/// A part of an input. On a GPU kernels want it where a tensor might begin: it is copied there.
Part slice(Composite& composite, std::size_t input, std::int64_t element, const Shape& shape) {
  Part part = Composite::from_element(composite.input(input), element, shape);
  if (part.byte_offset % 64 == 0 || composite.device().shares_host_memory()) return part;
  Part copy = composite.temporary(part.type, shape);
  composite.add_copy(part, copy, {{graph::num_elements(shape)}, {1}, {1}});
  return copy;
}

/// A state as it begins: an input, or zeros.
Part initial(Composite& composite, const Recurrence& of, std::size_t input, std::int64_t d) {
  Part state = composite.temporary(of.type, of.state());
  if (composite.has_input(input)) {
    const Part from =
        Composite::from_element(composite.input(input), of.state_offset(d), of.state());
    composite.add_copy(from, state, {of.state(), of.state_strides(), {of.hidden, 1}});
  } else {
    const Part zero = composite.constant(graph::Tensor::zeros(of.type, {1}));
    composite.add_copy(zero, state, {of.state(), {0, 0}, {of.hidden, 1}});
  }
  return state;
}

void store(Composite& composite, const Recurrence& of, const Part& state, std::size_t output,
           std::int64_t d) {
  if (!composite.has_output(output)) return;
  const Part to = Composite::from_element(composite.output(output), of.state_offset(d), of.state());
  composite.add_copy(state, to, {of.state(), {of.hidden, 1}, of.state_strides()});
}

/// One direction under way.
struct Direction {
  std::int64_t index = 0;
  Part x_gates;
  Part w_bias;
  Part r_bias;
  Part hidden;  ///< the state
  Part cell;    ///< the LSTM's
  Part peepholes;
};

Direction begin_direction(Composite& composite, const Recurrence& of, std::int64_t d) {
  Direction direction;
  direction.index = d;
  const std::int64_t all_steps = of.steps * of.batch;
  direction.x_gates = composite.temporary(of.type, {all_steps, of.rows});
  composite.add(passes::internal_domain, "FusedMatMul", {{"transB", std::int64_t{1}}},
                {Composite::reshaped(composite.input(0), {all_steps, of.inputs}),
                 slice(composite, 1, d * of.rows * of.inputs, {of.rows, of.inputs})},
                {direction.x_gates});
  if (composite.has_input(3)) {
    direction.w_bias = slice(composite, 3, d * 2 * of.rows, {of.rows});
    direction.r_bias = slice(composite, 3, (d * 2 + 1) * of.rows, {of.rows});
  }
  direction.hidden = initial(composite, of, 5, d);
  if (of.kind == "lstm") {
    direction.cell = initial(composite, of, 6, d);
    if (composite.has_input(7))
      direction.peepholes = slice(composite, 7, d * 3 * of.hidden, {3, of.hidden});
  }
  return direction;
}

void add_cell(Composite& composite, const Recurrence& of, const Direction& direction,
              std::int64_t step, const std::string& kind, const Part& state_gates, const Part& cell,
              const Part& new_hidden, const Part& new_cell) {
  // The step's elements, and from one element of the batch to the next.
  const std::int64_t apart = of.is_batch_first ? 1 : of.batch;
  const Part x_gates =
      Composite::from_element(direction.x_gates, step * apart * of.rows, {of.batch, of.rows});
  Part y;
  if (composite.has_output(0) && kind != "gru_gates")
    y = Composite::from_element(
        composite.output(0),
        step * of.directions * apart * of.hidden + of.state_offset(direction.index), of.state());
  auto values = of.node.attributes;
  values["kind"] = kind;
  values["direction"] = direction.index;
  values["hidden_size"] = of.hidden;
  values["step"] = step;
  values["x_stride"] = of.rows * (of.is_batch_first ? of.steps : 1);
  values["y_stride"] = of.hidden * (of.is_batch_first ? of.steps * of.directions : 1);
  composite.add(passes::internal_domain, "RecurrentCell", values,
                {x_gates, state_gates, direction.w_bias, direction.r_bias, direction.hidden, cell,
                 direction.peepholes, composite.input(4)},
                {new_hidden, new_cell, y});
}

/// Whether the device has one kernel for all steps, and it pays.
bool can_sweep(const Composite& composite, const Recurrence& of) {
  const bool has_kernel =
      composite.device().kernels().find(passes::internal_domain, "RecurrentSweep") != nullptr;
  return has_kernel && of.type == DataType::float32 && of.batch <= most_swept_batch &&
         of.batch * of.hidden * of.steps > 0;
}

void add_sweep(Composite& composite, const Recurrence& of, const Direction& direction,
               bool is_reversed) {
  const std::int64_t apart = of.is_batch_first ? 1 : of.batch;
  auto values = of.node.attributes;
  values["kind"] = of.kind == "gru" && of.resets_before_product ? "gru_gates" : of.kind;
  values["direction"] = direction.index;
  values["hidden_size"] = of.hidden;
  values["steps"] = of.steps;
  values["is_reversed"] = std::int64_t{is_reversed ? 1 : 0};
  values["x_stride"] = of.rows * (of.is_batch_first ? of.steps : 1);
  values["x_step"] = of.rows * apart;
  values["y_stride"] = of.hidden * (of.is_batch_first ? of.steps * of.directions : 1);
  values["y_step"] = of.hidden * apart * of.directions;
  Part y;
  if (composite.has_output(0))
    y = Composite::from_element(composite.output(0), of.state_offset(direction.index), of.state());
  const Part weights =
      slice(composite, 2, direction.index * of.rows * of.hidden, {of.rows, of.hidden});
  composite.add(passes::internal_domain, "RecurrentSweep", values,
                {direction.x_gates, weights, direction.w_bias, direction.r_bias, direction.hidden,
                 direction.cell, direction.peepholes, composite.input(4)},
                {direction.hidden, direction.cell, y});
}

/// A product of the hidden state, or of what the reset gate leaves of it, with recurrent weights.
struct StateProduct {
  Part state;
  Part weights;
  Part gates;
  std::shared_ptr<Kernel> kernel;
};

StateProduct product_of(Composite& composite, const Part& state, const Part& weights) {
  const Part gates = composite.temporary(state.type, {state.shape[0], weights.shape[0]});
  return {state, weights, gates,
          composite.make(passes::internal_domain, "FusedMatMul", {{"transB", std::int64_t{1}}},
                         {state, weights}, {gates})};
}

void add_steps(Composite& composite, const Recurrence& of, const Direction& direction,
               bool is_reversed) {
  const std::int64_t d = direction.index;
  const Part& hidden = direction.hidden;
  const Part& cell = direction.cell;
  const std::int64_t first = d * of.rows * of.hidden;
  const std::int64_t at_once = of.resets_before_product ? 2 * of.hidden : of.rows;
  const StateProduct product =
      product_of(composite, hidden, slice(composite, 2, first, {at_once, of.hidden}));
  StateProduct reset_product;  // of the GRU that resets before it
  Part update;                 // its update gate
  if (of.resets_before_product) {
    update = composite.temporary(of.type, of.state());
    reset_product =
        product_of(composite, composite.temporary(of.type, of.state()),
                   slice(composite, 2, first + at_once * of.hidden, {of.hidden, of.hidden}));
  }
  const auto append = [&](const StateProduct& each) {
    composite.append(each.kernel, {each.state, each.weights}, {each.gates});
  };
  for (std::int64_t i = 0; i < of.steps; ++i) {
    const std::int64_t step = is_reversed ? of.steps - 1 - i : i;
    append(product);
    if (!of.resets_before_product) {
      add_cell(composite, of, direction, step, of.kind, product.gates, cell, hidden, cell);
      continue;
    }
    add_cell(composite, of, direction, step, "gru_gates", product.gates, {}, reset_product.state,
             update);
    append(reset_product);
    add_cell(composite, of, direction, step, "gru_candidate", reset_product.gates, update, hidden,
             {});
  }
}

void add_direction(Composite& composite, const Recurrence& of, std::int64_t d) {
  const Direction direction = begin_direction(composite, of, d);
  const bool is_reversed = of.starts_reversed || d == 1;
  if (can_sweep(composite, of))
    add_sweep(composite, of, direction, is_reversed);
  else
    add_steps(composite, of, direction, is_reversed);
  store(composite, of, direction.hidden, 1, d);
  if (of.kind == "lstm") store(composite, of, direction.cell, 2, d);
}

std::unique_ptr<Kernel> make(const KernelRequest& request, const char* kind, std::int64_t gates) {
  const Recurrence of = recurrence_of(request, kind, gates);
  Composite composite(request);
  for (std::int64_t d = 0; d < of.directions; ++d) add_direction(composite, of, d);
  return composite.finish();
}

}  // namespace

std::unique_ptr<Kernel> make_rnn(const KernelRequest& request) { return make(request, "rnn", 1); }
std::unique_ptr<Kernel> make_gru(const KernelRequest& request) { return make(request, "gru", 3); }
std::unique_ptr<Kernel> make_lstm(const KernelRequest& request) { return make(request, "lstm", 4); }

}  // namespace autopar::runtime
