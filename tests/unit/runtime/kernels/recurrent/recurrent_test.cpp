// RNN, GRU and LSTM against their equations, element by element.

#include <cmath>
#include <functional>

#include "unit/runtime/loops.h"

using namespace autopar;
using namespace autopar::runtime;
using namespace autopar::runtime::testing;

namespace {

using Function = std::function<double(double)>;

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double hyperbolic_tangent(double x) { return std::tanh(x); }

/// Sizes and options of one operator.
struct Network {
  std::string op_type;
  std::int64_t gates = 1;
  std::int64_t steps = 3;
  std::int64_t batch = 2;
  std::int64_t inputs = 4;
  std::int64_t hidden = 5;
  std::string direction = "forward";
  bool is_batch_first = false;
  bool has_bias = false;
  bool has_lengths = false;
  bool has_state = false;
  bool has_peepholes = false;
  bool resets_after = false;
  bool couples = false;
  double clip = 0;
  std::vector<Function> functions;  ///< of one direction; the names go with them
  std::vector<std::string> names;
  std::vector<float> alphas;
  std::vector<float> betas;

  std::int64_t directions() const { return direction == "bidirectional" ? 2 : 1; }
};

struct Operands {
  Tensor x, w, r, bias, lengths, hidden, cell, peepholes;
};

Operands random_operands(const Network& n, Random& random, DataType type) {
  const std::int64_t d = n.directions();
  const auto tensor = [&](const Shape& shape) { return random_in(type, shape, random, -1, 1); };
  const Shape state = n.is_batch_first ? Shape{n.batch, d, n.hidden} : Shape{d, n.batch, n.hidden};
  // Larger ones of many units would make more of rounding with each step.
  const double most = std::min(1.0, 3 / std::sqrt(static_cast<double>(n.hidden)));
  std::vector<double> lengths(static_cast<std::size_t>(n.batch));
  for (std::size_t b = 0; b < lengths.size(); ++b)
    lengths[b] = static_cast<double>(n.steps) - static_cast<double>(b % 3);
  return {tensor(n.is_batch_first ? Shape{n.batch, n.steps, n.inputs}
                                  : Shape{n.steps, n.batch, n.inputs}),
          tensor({d, n.gates * n.hidden, n.inputs}),
          random_in(type, {d, n.gates * n.hidden, n.hidden}, random, -most, most),
          tensor({d, 2 * n.gates * n.hidden}),
          tensor_of(DataType::int32, {n.batch}, lengths),
          tensor(state),
          tensor(state),
          tensor({d, 3 * n.hidden})};
}

struct Results {
  std::vector<double> y, hidden, cell;
};

/// Plain loops over directions, batch and time.
Results by_definition(const Network& n, const Operands& o) {
  const std::int64_t directions = n.directions();
  const auto y_place = [&](std::int64_t t, std::int64_t d, std::int64_t b, std::int64_t j) {
    return static_cast<std::size_t>(n.is_batch_first
                                        ? ((b * n.steps + t) * directions + d) * n.hidden + j
                                        : ((t * directions + d) * n.batch + b) * n.hidden + j);
  };
  const auto state_place = [&](std::int64_t d, std::int64_t b, std::int64_t j) {
    return static_cast<std::size_t>(
        (n.is_batch_first ? b * directions + d : d * n.batch + b) * n.hidden + j);
  };
  Results results;
  results.y.resize(static_cast<std::size_t>(n.steps * directions * n.batch * n.hidden), 0);
  results.hidden.resize(static_cast<std::size_t>(directions * n.batch * n.hidden), 0);
  results.cell = results.hidden;
  const auto functions = [&](std::size_t i) {
    return [&n, i](double x) {
      return n.functions[i](n.clip > 0 ? std::clamp(x, -n.clip, n.clip) : x);
    };
  };
  const auto f = functions(0);
  const auto g = functions(n.functions.size() > 1 ? 1 : 0);
  for (std::int64_t d = 0; d < directions; ++d)
    for (std::int64_t b = 0; b < n.batch; ++b) {
      const auto size = static_cast<std::size_t>(n.hidden);
      std::vector<double> h(size, 0);
      std::vector<double> c(size, 0);
      for (std::int64_t j = 0; j < n.hidden && n.has_state; ++j) {
        h[static_cast<std::size_t>(j)] = number_at(o.hidden, state_place(d, b, j));
        c[static_cast<std::size_t>(j)] = number_at(o.cell, state_place(d, b, j));
      }
      const bool is_reversed = n.direction == "reverse" || d == 1;
      const std::int64_t length =
          n.has_lengths ? o.lengths.to_int64s()[static_cast<std::size_t>(b)] : n.steps;
      for (std::int64_t i = 0; i < length; ++i) {
        const std::int64_t t = is_reversed ? length - 1 - i : i;
        const auto from_x = [&](std::int64_t gate, std::int64_t j) {
          const std::int64_t row = gate * n.hidden + j;
          double sum = n.has_bias ? at(o.bias, {d, row}) : 0;
          for (std::int64_t k = 0; k < n.inputs; ++k)
            sum +=
                at(o.w, {d, row, k}) * (n.is_batch_first ? at(o.x, {b, t, k}) : at(o.x, {t, b, k}));
          return sum;
        };
        const auto from_state = [&](std::int64_t gate, std::int64_t j,
                                    const std::vector<double>& state) {
          const std::int64_t row = gate * n.hidden + j;
          double sum = n.has_bias ? at(o.bias, {d, n.gates * n.hidden + row}) : 0;
          for (std::int64_t k = 0; k < n.hidden; ++k)
            sum += at(o.r, {d, row, k}) * state[static_cast<std::size_t>(k)];
          return sum;
        };
        const auto peephole = [&](std::int64_t gate, std::int64_t j) {
          return n.has_peepholes ? at(o.peepholes, {d, gate * n.hidden + j}) : 0;
        };
        std::vector<double> next(size);
        std::vector<double> reset(size);
        if (n.op_type == "GRU")
          for (std::int64_t j = 0; j < n.hidden; ++j) {
            const auto at_j = static_cast<std::size_t>(j);
            reset[at_j] = f(from_x(1, j) + from_state(1, j, h)) * h[at_j];
          }
        for (std::int64_t j = 0; j < n.hidden; ++j) {
          const auto at_j = static_cast<std::size_t>(j);
          if (n.op_type == "RNN") {
            next[at_j] = f(from_x(0, j) + from_state(0, j, h));
          } else if (n.op_type == "GRU") {
            const double z = f(from_x(0, j) + from_state(0, j, h));
            const double r = f(from_x(1, j) + from_state(1, j, h));
            const double candidate = n.resets_after ? g(from_x(2, j) + r * from_state(2, j, h))
                                                    : g(from_x(2, j) + from_state(2, j, reset));
            next[at_j] = (1 - z) * candidate + z * h[at_j];
          } else {
            const double old = c[at_j];
            const double in = f(from_x(0, j) + from_state(0, j, h) + peephole(0, j) * old);
            const double forget =
                n.couples ? 1 - in : f(from_x(2, j) + from_state(2, j, h) + peephole(2, j) * old);
            const double candidate = g(from_x(3, j) + from_state(3, j, h));
            c[at_j] = forget * old + in * candidate;
            const double out = f(from_x(1, j) + from_state(1, j, h) + peephole(1, j) * c[at_j]);
            next[at_j] = out * n.functions[2](c[at_j]);
          }
        }
        h = next;
        for (std::int64_t j = 0; j < n.hidden; ++j)
          results.y[y_place(t, d, b, j)] = h[static_cast<std::size_t>(j)];
      }
      for (std::int64_t j = 0; j < n.hidden; ++j) {
        results.hidden[state_place(d, b, j)] = h[static_cast<std::size_t>(j)];
        results.cell[state_place(d, b, j)] = c[static_cast<std::size_t>(j)];
      }
    }
  return results;
}

void check(const Network& n, DataType type, Random& random, int threads = 1) {
  const Operands o = random_operands(n, random, type);
  const auto given = [](bool is_given, const Tensor& tensor) {
    return is_given ? std::optional(tensor) : std::nullopt;
  };
  NodeRun run{n.op_type,
              {{"hidden_size", n.hidden},
               {"direction", n.direction},
               {"layout", std::int64_t{n.is_batch_first}}},
              {o.x, o.w, o.r, given(n.has_bias, o.bias), given(n.has_lengths, o.lengths),
               given(n.has_state, o.hidden)},
              {}};
  if (n.resets_after) run.attributes["linear_before_reset"] = std::int64_t{1};
  if (n.couples) run.attributes["input_forget"] = std::int64_t{1};
  if (n.clip > 0) run.attributes["clip"] = static_cast<float>(n.clip);
  if (!n.names.empty()) run.attributes["activations"] = n.names;
  if (!n.alphas.empty()) run.attributes["activation_alpha"] = n.alphas;
  if (!n.betas.empty()) run.attributes["activation_beta"] = n.betas;
  const Shape state = o.hidden.shape();
  run.outputs = {{type, n.is_batch_first ? Shape{n.batch, n.steps, n.directions(), n.hidden}
                                         : Shape{n.steps, n.directions(), n.batch, n.hidden}},
                 {type, state}};
  const bool is_lstm = n.op_type == "LSTM";
  if (is_lstm) {
    run.inputs.push_back(given(n.has_state, o.cell));
    run.inputs.push_back(given(n.has_peepholes, o.peepholes));
    run.outputs.emplace_back(type, state);
  }
  run.threads = threads;
  const auto found = run_node(run);
  const Results expected = by_definition(n, o);
  CAPTURE(n.op_type, n.direction, n.is_batch_first, n.has_bias, n.has_lengths, n.has_state,
          n.has_peepholes, n.resets_after, n.couples, n.clip, name_of(type));
  check_close(found[0], expected.y, 3);
  check_close(found[1], expected.hidden, 3);
  if (is_lstm) check_close(found[2], expected.cell, 3);
}

std::vector<Network> networks() {
  std::vector<Network> result;
  Network rnn;
  rnn.op_type = "RNN";
  rnn.functions = {hyperbolic_tangent};
  result.push_back(rnn);
  Network gru;
  gru.op_type = "GRU";
  gru.gates = 3;
  gru.functions = {sigmoid, hyperbolic_tangent};
  result.push_back(gru);
  gru.resets_after = true;
  result.push_back(gru);
  Network lstm;
  lstm.op_type = "LSTM";
  lstm.gates = 4;
  lstm.functions = {sigmoid, hyperbolic_tangent, hyperbolic_tangent};
  result.push_back(lstm);
  lstm.has_peepholes = true;
  result.push_back(lstm);
  lstm.couples = true;
  result.push_back(lstm);
  return result;
}

}  // namespace

TEST_CASE("RNN, GRU and LSTM in every direction and layout, with all that may be left out") {
  Random random(1);
  for (const Network& plain : networks())
    for (const char* direction : {"forward", "reverse", "bidirectional"})
      for (const bool is_batch_first : {false, true})
        for (int options = 0; options < 8; ++options) {
          Network n = plain;
          n.direction = direction;
          n.is_batch_first = is_batch_first;
          n.has_bias = (options & 1) != 0;
          n.has_lengths = (options & 2) != 0;
          n.has_state = (options & 4) != 0;
          check(n, DataType::float32, random);
        }
}

TEST_CASE("Recurrent networks of other types and sizes, and with a clip") {
  Random random(2);
  for (Network n : networks()) {
    n.has_bias = true;
    for (const DataType type : float_types) check(n, type, random);
    n.clip = 0.4;
    check(n, DataType::float32, random);
    n.steps = 1;
    n.batch = 1;
    n.inputs = 1;
    n.hidden = 1;
    check(n, DataType::float32, random);
  }
}

TEST_CASE("Recurrent networks of many units and of large batches, on several threads") {
  Random random(4);
  for (Network n : networks())
    for (const std::int64_t hidden : {71, 80})
      for (const std::int64_t batch : {1, 5, 17})
        for (const bool has_lengths : {false, true}) {
          // Weights are packed for many steps, on CPUs alone; the emulation would take minutes.
          n.steps = hidden == 80 && !device_under_test() ? 33 : 4;
          n.hidden = hidden;
          n.batch = batch;
          n.direction = has_lengths ? "reverse" : "forward";
          n.has_bias = true;
          n.has_lengths = has_lengths;
          check(n, DataType::float32, random, batch == 1 ? 1 : 3);
        }
}

TEST_CASE("The state's product gives a row of a batch the same bytes alone and with others") {
  if (device_under_test()) return;  // a GPU's products are another library's
  Random random(8);
  std::vector<Network> all;
  for (const std::int64_t hidden : {80, 71})  // rows of 71 are no whole vectors
    for (Network n : networks()) {
      n.hidden = hidden;
      if (!n.has_peepholes) all.push_back(n);
    }
  for (Network n : all) {
    n.steps = 33;
    n.batch = 5;
    const Operands o = random_operands(n, random, DataType::float32);
    // The input's product is another kernel, which may add up in another order for more rows.
    const Tensor no_weights = Tensor::zeros(DataType::float32, o.w.shape());
    const auto last_states = [&](const Tensor& x, std::int64_t batch) {
      NodeRun run{
          n.op_type,
          {{"hidden_size", n.hidden}, {"linear_before_reset", std::int64_t{n.resets_after}}},
          {x, no_weights, o.r, o.bias},
          {{DataType::float32, {n.steps, 1, batch, n.hidden}},
           {DataType::float32, {1, batch, n.hidden}}}};
      if (n.op_type != "GRU") run.attributes.erase("linear_before_reset");
      run.threads = 2;
      return doubles(run_node(run)[1]);
    };
    const std::vector<double> together = last_states(o.x, n.batch);
    for (std::int64_t b = 0; b < n.batch; ++b) {
      const graph::Range all_steps{0, n.steps};
      const graph::Range all_inputs{0, n.inputs};
      const Tensor row =
          o.x.slice(std::vector{all_steps, {b, b + 1}, all_inputs}).contiguous_copy();
      const std::vector<double> alone = last_states(row, 1);
      const auto* const begin = together.data() + b * n.hidden;
      CAPTURE(n.op_type, n.resets_after, n.hidden, b);
      CHECK(alone == std::vector<double>(begin, begin + n.hidden));
    }
  }
}

TEST_CASE("Every activation of recurrent networks, with its numbers") {
  struct Activation {
    const char* name;
    Function function;
    std::vector<float> alphas;
    std::vector<float> betas;
  };
  const std::vector<Activation> activations = {
      {"Relu", [](double x) { return std::max(x, 0.0); }, {}, {}},
      {"Tanh", hyperbolic_tangent, {}, {}},
      {"Sigmoid", sigmoid, {}, {}},
      {"Affine", [](double x) { return 0.5 * x + 0.25; }, {0.5F}, {0.25F}},
      {"LeakyRelu", [](double x) { return x < 0 ? 0.01 * x : x; }, {}, {}},
      {"LeakyRelu", [](double x) { return x < 0 ? 0.5 * x : x; }, {0.5F}, {}},
      {"ThresholdedRelu", [](double x) { return x >= 0.25 ? x : 0; }, {0.25F}, {}},
      {"ScaledTanh", [](double x) { return 0.5 * std::tanh(2 * x); }, {0.5F}, {2}},
      {"HardSigmoid", [](double x) { return std::clamp(0.2 * x + 0.5, 0.0, 1.0); }, {}, {}},
      {"Elu", [](double x) { return x < 0 ? std::exp(x) - 1 : x; }, {}, {}},
      {"Softsign", [](double x) { return x / (1 + std::fabs(x)); }, {}, {}},
      {"Softplus", [](double x) { return std::log1p(std::exp(x)); }, {}, {}}};
  Random random(3);
  for (const Activation& activation : activations) {
    Network n;
    n.op_type = "RNN";
    n.has_state = true;
    n.functions = {activation.function};
    n.names = {activation.name};
    n.alphas = activation.alphas;
    n.betas = activation.betas;
    check(n, DataType::float32, random);
  }
  // The second of three takes the numbers; both directions have the same here.
  Network lstm;
  lstm.op_type = "LSTM";
  lstm.gates = 4;
  lstm.direction = "bidirectional";
  lstm.functions = {sigmoid, [](double x) { return x < 0 ? 0.5 * x : x; }, hyperbolic_tangent};
  lstm.names = {"Sigmoid", "LeakyRelu", "Tanh", "Sigmoid", "LeakyRelu", "Tanh"};
  lstm.alphas = {0.5F, 0.5F};
  check(lstm, DataType::float32, random);
}

TEST_CASE("A recurrent network that makes no sense is an error that names the node") {
  const Tensor x = Tensor::zeros(DataType::float32, {3, 2, 4});
  const auto run = [&](std::map<std::string, Attribute> attributes, const Shape& w) {
    run_node({"RNN",
              std::move(attributes),
              {x, Tensor::zeros(DataType::float32, w), Tensor::zeros(DataType::float32, {1, 5, 5})},
              {{DataType::float32, {3, 1, 2, 5}}}});
  };
  CHECK_THROWS_WITH(run({}, {1, 5, 3}), Catch::Contains("the_node"));
  CHECK_THROWS_WITH(run({{"direction", std::string("sideways")}}, {1, 5, 4}),
                    Catch::Contains("sideways"));
  CHECK_THROWS_WITH(run({{"activations", std::vector<std::string>{"Wave"}}}, {1, 5, 4}),
                    Catch::Contains("Wave"));
}

TEST_CASE("RNN, GRU and LSTM of a share that is empty, or of one element") {
  Random random(23);
  for (const Network& kind : networks())
    for (const std::int64_t batch : {0, 1})
      for (const std::int64_t steps : {0, 1, 2})
        for (const std::int64_t hidden : {1, 3})
          for (const char* direction : {"forward", "bidirectional"})
            for (const bool is_batch_first : {false, true})
              for (const bool has_all : {false, true}) {
                Network n = kind;
                n.batch = batch;
                n.steps = steps;
                n.hidden = hidden;
                n.inputs = hidden;
                n.direction = direction;
                n.is_batch_first = is_batch_first;
                n.has_bias = n.has_state = has_all;
                n.has_lengths = has_all && steps > 0;
                for (const DataType type :
                     {DataType::float32, DataType::float64, DataType::float16})
                  check(n, type, random);
              }
}
