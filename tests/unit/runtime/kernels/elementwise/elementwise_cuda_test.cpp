#include <emulation.h>
#include <catch2/catch.hpp>

#include "runtime/devices/cuda/cuda_device.h"
#include "runtime/kernels/elementwise/code_cuda.h"
#include "runtime/kernels/elementwise/elementwise.h"
#include "runtime/kernels/elementwise/operators.h"
#include "runtime/kernels/elementwise/registers_cuda.h"
#include "unit/runtime/run_node.h"

namespace autopar::runtime::cuda {
namespace {

using namespace testing;

CudaDevice& device() { return static_cast<CudaDevice&>(*device_under_test()); }

std::vector<DataType> all_types() {
  std::vector<DataType> types = float_types;
  types.insert(types.end(), integer_types.begin(), integer_types.end());
  types.push_back(DataType::boolean);
  return types;
}

bool agree(double value, double truth, double tolerance) {
  if (std::isnan(truth)) return std::isnan(value);
  if (std::isinf(truth) || tolerance == 0) return value == truth;
  return std::fabs(value - truth) <= tolerance * std::max(1.0, std::fabs(truth));
}

Tensor run_on(Device* on, const NodeRun& node, const graph::Graph& graph) {
  Executable executable(graph, {.device = on});
  std::vector<Tensor> inputs;
  for (const auto& input : node.inputs) inputs.push_back(*input);
  return run(executable, graph, inputs)[0];
}

/// Whether the CPU serves the node; if it does, CUDA must give the same.
bool serves_as_cpu(const NodeRun& node) {
  const graph::Graph graph = make_graph(node);
  Tensor truth;
  try {
    truth = run_on(nullptr, node, graph);
  } catch (const Error&) {
    CHECK_THROWS_AS(run_on(&device(), node, graph), Error);
    return false;
  }
  const Tensor result = run_on(&device(), node, graph);
  const DataType type = node.outputs[0].first;
  const double tolerance = graph::is_floating_point(type) ? 4 * tolerance_of(type) : 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(truth.elements()); ++i)
    if (!agree(number_at(result, i), number_at(truth, i), tolerance))
      FAIL(node.op_type << " of " << name_of(node.inputs.back()->type()) << ": "
                        << number_at(result, i) << ", not " << number_at(truth, i) << " at " << i);
  return true;
}

template <typename F, typename... Ts>
constexpr int served_types(Function<F, Types<Ts...>>) {
  return sizeof...(Ts);
}

template <typename Function, typename T>
constexpr bool has_instruction = is_instruction<Function, RegisterType<T>, std::uint64_t> &&
                                 (sizeof(T) == 8 || is_only_wide_function<Function> ||
                                  is_instruction<Function, RegisterType<T>, std::uint32_t>);

template <typename Function, typename... Ts>
constexpr bool has_instructions(Types<Ts...>) {
  return (has_instruction<Function, Ts> && ...);
}

template <typename... Fs>
void check_instructions(Types<Fs...>) {
  int places = 0;
  const auto check_one = [&]<typename F, typename Ts>(Function<F, Ts>) {
    CAPTURE(places++);
    const bool rounds = std::same_as<F, functions::RoundTo<Float16>> ||
                        std::same_as<F, functions::RoundTo<BFloat16>>;
    CHECK((rounds || has_instructions<Function<F, Ts>>(Ts{})));
  };
  (check_one(Fs{}), ...);
}

TEST_CASE("Every function has an instruction for every type that it serves") {
  check_instructions(ElementwiseFunctions{});
}

/// What lines of several variants tell apart.
std::vector<std::map<std::string, Attribute>> attributes_of(std::string_view op_type) {
  if (op_type == "Mod") return {{}, {{"fmod", std::int64_t{1}}}};
  if (op_type == "Gelu") return {{}, {{"approximate", std::string("tanh")}}};
  if (op_type == "BitShift")
    return {{{"direction", std::string("LEFT")}}, {{"direction", std::string("RIGHT")}}};
  return {{}};
}

TEST_CASE("Every operator runs on every type as on the CPU, NaN and infinities included") {
  std::mt19937 random(5);
  const Shape shape{3, 43};  // whole groups and a rest
  int served = 0;
  for (const std::string_view op_type : elementwise_operator_names()) {
    if (op_type == "Cast" || op_type == "CastLike") continue;
    for (const auto& attributes : attributes_of(op_type))
      for (const DataType type : all_types()) {
        const bool is_float = graph::is_floating_point(type);
        const bool is_unsigned = name_of(type)[0] == 'u';
        const auto operand = [&] {
          Tensor tensor = random_in(type, shape, random, is_unsigned ? 0 : -5, 5);
          if (!is_float) return tensor;
          auto values = doubles(tensor);
          values[random() % 20] = NAN;
          values[20 + random() % 20] = INFINITY;
          values[40 + random() % 20] = -INFINITY;
          return tensor_of(type, shape, values);
        };
        bool is_served = false;
        for (std::size_t operands = 1; operands <= 3 && !is_served; ++operands) {
          NodeRun node{std::string(op_type), attributes, {}, {}};
          for (std::size_t i = 0; i < operands; ++i) node.inputs.emplace_back(operand());
          if (op_type == "Where") {
            if (operands < 3) continue;
            node.inputs[0] = random_in(DataType::boolean, shape, random, 0, 1);
          }
          // Fewer than are read would be taken for all; a variadic one alone is the identity.
          const ElementwiseOperator* op = find_elementwise_operator(make_graph(node).nodes[0]);
          REQUIRE(op != nullptr);
          const int least = op->operands == ElementwiseOperator::variadic ? 2 : op->operands;
          if (least > static_cast<int>(operands) && op_type != "Clip") continue;
          for (const DataType result : {type, DataType::boolean}) {
            node.outputs = {{result, shape}};
            is_served = is_served || serves_as_cpu(node);
          }
        }
        served += is_served;
      }
  }
  // 15 types a line of Numbers (2 halves among them), and so on: all that lines promise.
  int promised = 0;
  const auto count = [&]<typename... Fs>(Types<Fs...>) {
    const auto halves = []<typename F, typename Ts>(Function<F, Ts>) {
      return has_register<float>(Ts{}) ? 2 : 0;
    };
    ((promised += served_types(Fs{}) + halves(Fs{})), ...);
  };
  count(Joined<decltype(elementwise_table::arithmetic)::Functions,
               decltype(elementwise_table::mathematical)::Functions,
               decltype(elementwise_table::activations)::Functions,
               decltype(elementwise_table::logical)::Functions>{});
  const int clip = 13;  // composed of others' functions: all types, as the identity even bools
  CHECK(served == promised + clip);
}

TEST_CASE("Cast gives what the CPU's gives, from every type to every type") {
  std::mt19937 random(6);
  for (const DataType from : all_types())
    for (const DataType to : all_types()) {
      Tensor x = random_in(from, {301}, random, name_of(from)[0] == 'u' ? 0 : -120, 127);
      if (graph::is_floating_point(from)) {
        auto values = doubles(x);
        values[3] = NAN;
        values[4] = 60000;
        values[5] = -60000;
        values[6] = INFINITY;
        values[7] = -INFINITY;
        x = tensor_of(from, {301}, values);
      }
      CHECK(serves_as_cpu({"Cast", {{"to", std::int64_t(to)}}, {x}, {{to, {301}}}}));
    }
}

TEST_CASE("Operands are read wherever broadcasting puts them, at every size of rows") {
  std::mt19937 random(7);
  for (const DataType type :
       {DataType::float32, DataType::float16, DataType::int8, DataType::float64, DataType::int16})
    for (const std::int64_t inner : {1, 2, 3, 7, 8, 9, 12, 16, 23, 64, 1000})
      for (const Shape& y_shape : std::vector<Shape>{{inner},
                                                     {5, 1},
                                                     {},
                                                     {3, 1, inner},
                                                     {3, 1, 1},
                                                     {3, 5, 1},
                                                     {1, 5, inner},
                                                     {3, 5, inner}}) {
        const Tensor x = random_in(type, {3, 5, inner}, random, 0, 50);
        const Tensor y = random_in(type, y_shape, random, 0, 50);
        CHECK(serves_as_cpu({"Sub", {}, {x, y}, {{type, {3, 5, inner}}}}));
        CHECK(serves_as_cpu({"Sub", {}, {y, x}, {{type, {3, 5, inner}}}}));
      }
}

/// Copies of tensors that begin `offset` elements behind an aligned address.
class Placed {
 public:
  Placed(const Tensor& tensor, std::int64_t offset)
      : bytes_(tensor.size_bytes()),
        memory_(device().allocate(bytes_ + 64)),
        view_{tensor.type(), tensor.shape(),
              memory_.get() + offset * graph::bits_of(tensor.type()) / 8} {
    device().write(view_.data, tensor.bytes());
  }
  const TensorView& view() const { return view_; }
  Tensor tensor() const {
    std::vector<std::byte> bytes(static_cast<std::size_t>(bytes_));
    device().read(bytes, view_.data);
    return Tensor::of<std::byte>(view_.type, view_.shape, bytes);
  }

 private:
  std::int64_t bytes_;
  std::shared_ptr<std::byte> memory_;
  TensorView view_;
};

TEST_CASE("Operands and results may begin at any element") {
  std::mt19937 random(8);
  const graph::Node node{"the_node", "Add", "", {}, {}, {}};
  for (const DataType type :
       {DataType::float32, DataType::bfloat16, DataType::uint8, DataType::int64})
    for (int round = 0; round < 12; ++round) {
      const Shape shape{3, round % 2 ? 40 : 41};
      const Tensor x = random_in(type, shape, random, 0, 50);
      const Tensor y = random_in(type, {shape[1]}, random, 0, 50);
      const Placed x_there(x, round % 3);
      const Placed y_there(y, round % 4);
      const Placed z_there(Tensor::zeros(type, shape), round % 5);
      KernelRequest request{node, {x_there.view(), y_there.view()}, {z_there.view()}, device()};
      for (TensorView& view : request.inputs) view.data = nullptr;
      const auto kernel = make_elementwise(request);
      kernel->run({{{x_there.view(), y_there.view()}},
                   {{z_there.view()}},
                   nullptr,
                   device().compute_stream()});
      cudaStreamSynchronize(device().compute_stream());
      const auto xs = doubles(x);
      const auto ys = doubles(y);
      const auto zs = doubles(z_there.tensor());
      for (std::size_t i = 0; i < zs.size(); ++i) {
        const double sum = xs[i] + ys[i % std::size_t(shape[1])];
        if (!agree(zs[i], sum, graph::is_floating_point(type) ? tolerance_of(type) : 0))
          FAIL("round " << round << " of " << name_of(type) << " at " << i);
      }
    }
}

TEST_CASE("Indices of 2^31 and more find the same elements as small ones") {
  std::mt19937 random(10);
  for (const Shape& y_shape : std::vector<Shape>{{7, 1, 9}, {5, 1}, {3, 7, 5, 1}}) {
    const Shape shape{3, 7, 5, 9};
    ElementwiseProgram program(shape);
    const TensorView x_view{DataType::float32, shape, nullptr};
    const TensorView y_view{DataType::float32, y_shape, nullptr};
    const std::array operands{program.add_input(0, x_view), program.add_input(1, y_view)};
    const int sum = program.add_instruction(function<functions::Add, Numbers>, operands);
    program.set_output(sum, DataType::float32);
    const Placed x(random_in(DataType::float32, shape, random, -1, 1), 0);
    const Placed y(random_in(DataType::float32, y_shape, random, -1, 1), 0);
    std::vector<std::vector<double>> results;
    for (const bool is_small : {true, false}) {
      const Placed z(Tensor::zeros(DataType::float32, shape), 0);
      ElementwiseCode code = make_code(program, narrow_width, {});
      code.has_small_indices = is_small;
      code.inputs[0].data = x.view().data;
      code.inputs[1].data = y.view().data;
      code.output = z.view().data;
      run_narrow(code, device().compute_stream());
      cudaStreamSynchronize(device().compute_stream());
      results.push_back(doubles(z.tensor()));
    }
    CHECK(results[0] == results[1]);
  }
}

TEST_CASE("A Sum of more operands than the interpreter reads is added up in parts") {
  NodeRun node{"Sum", {}, {}, {{DataType::float32, {2}}}};
  for (int i = 0; i <= max_code_inputs; ++i)
    node.inputs.emplace_back(tensor_of(DataType::float32, {2}, {1.0 * i, 1}));
  const double count = max_code_inputs + 1;
  CHECK(doubles(run_node(node)[0]) == std::vector<double>{count * (count - 1) / 2, count});
}

}  // namespace
}  // namespace autopar::runtime::cuda
