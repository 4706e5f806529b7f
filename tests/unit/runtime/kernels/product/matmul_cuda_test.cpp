// Products on the emulated GPU: what cuBLASLt is asked for, and the kernels beside it, against
// loops.

#include <catch2/catch.hpp>
#include <numeric>

#include "emulation.h"
#include "emulation_cublaslt.h"
#include "runtime/devices/cuda/cuda_device.h"
#include "runtime/kernels/convolution/kernels.h"
#include "runtime/kernels/cuda_operators.h"
#include "runtime/passes/passes.h"
#include "unit/runtime/loops.h"

using namespace autopar;
using namespace autopar::runtime;
using namespace autopar::runtime::testing;
using emulation::MatmulCall;

namespace {

/// What the first run asked cuBLASLt for since the last clear; its capture has asked for it again.
std::vector<emulation::MatmulCall> calls_of_a_run() {
  auto calls = emulation::matmul_calls();
  REQUIRE(calls.size() % 2 == 0);
  calls.resize(calls.size() / 2);
  return calls;
}

using Permutation = std::vector<std::int64_t>;

/// What Transpose with this permutation makes of a tensor's shape.
Shape transposed(const Shape& shape, const Permutation& permutation) {
  Shape result;
  for (const std::int64_t d : permutation) result.push_back(shape[static_cast<std::size_t>(d)]);
  return result;
}

/// The shape of which Transpose with this permutation makes `shape`.
Shape untransposed(const Shape& shape, const Permutation& permutation) {
  Shape result(shape.size());
  for (std::size_t d = 0; d < shape.size(); ++d)
    result[static_cast<std::size_t>(permutation[d])] = shape[d];
  return result;
}

/// The element of a stored tensor at an index of what its permutation makes of it.
double at_permuted(const Tensor& stored, const Permutation& permutation, Shape index) {
  index.erase(index.begin(),
              index.begin() + static_cast<std::ptrdiff_t>(index.size() - permutation.size()));
  Shape place(index.size());
  for (std::size_t d = 0; d < index.size(); ++d)
    place[static_cast<std::size_t>(permutation[d])] = index[d];
  return at(stored, place);
}

double activated(const std::string& activation, double x) {
  if (activation == "Relu") return x < 0 ? 0 : x;
  if (activation == "Gelu") return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
  if (activation == "GeluTanh")
    return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  return x;
}

Permutation identity(std::size_t rank) {
  Permutation permutation(rank);
  std::iota(permutation.begin(), permutation.end(), 0);
  return permutation;
}

/// A FusedMatMul as its operator has its operands, before the permutations.
struct FusedProduct {
  Shape batches_a;
  Shape batches_b;
  Shape batches;
  std::int64_t rows = 1;
  std::int64_t depth = 1;
  std::int64_t columns = 1;
  Permutation a_perm = {};  ///< empty: the attribute is left out
  Permutation b_perm = {};
  Permutation out_perm = {};
  bool has_bias = false;
  std::string activation = {};

  Shape a_shape() const { return joined(batches_a, rows, depth); }
  Shape b_shape() const { return joined(batches_b, depth, columns); }
  Shape out_shape() const { return joined(batches, rows, columns); }

 private:
  static Shape joined(Shape batches, std::int64_t rows, std::int64_t columns) {
    batches.insert(batches.end(), {rows, columns});
    return batches;
  }
};

/// Runs it, checks it against a loop, and returns what cuBLASLt was asked for.
std::vector<MatmulCall> check_product(const FusedProduct& product, DataType type, Random& random) {
  const auto or_identity = [](const Permutation& permutation, const Shape& shape) {
    return permutation.empty() ? identity(shape.size()) : permutation;
  };
  const Permutation a_perm = or_identity(product.a_perm, product.a_shape());
  const Permutation b_perm = or_identity(product.b_perm, product.b_shape());
  const Permutation out_perm = or_identity(product.out_perm, product.out_shape());
  const Tensor a = random_in(type, untransposed(product.a_shape(), a_perm), random, -1, 1);
  const Tensor b = random_in(type, untransposed(product.b_shape(), b_perm), random, -1, 1);
  const Tensor bias = random_in(type, {product.columns}, random, -1, 1);
  NodeRun node{.op_type = "FusedMatMul",
               .attributes = {},
               .inputs = {a, b},
               .outputs = {{type, transposed(product.out_shape(), out_perm)}},
               .domain = passes::internal_domain};
  if (!product.a_perm.empty()) node.attributes["a_perm"] = product.a_perm;
  if (!product.b_perm.empty()) node.attributes["b_perm"] = product.b_perm;
  if (!product.out_perm.empty()) node.attributes["out_perm"] = product.out_perm;
  if (!product.activation.empty()) node.attributes["activation"] = product.activation;
  if (product.has_bias) node.inputs.emplace_back(bias);

  std::vector<double> expected;
  for_each_index(node.outputs[0].second, [&](const Shape& stored) {
    Shape index(stored.size());
    for (std::size_t d = 0; d < stored.size(); ++d)
      index[static_cast<std::size_t>(out_perm[d])] = stored[d];
    double sum = product.has_bias ? at(bias, {index.back()}) : 0;
    for (std::int64_t k = 0; k < product.depth; ++k) {
      Shape of_a = index;
      Shape of_b = index;
      of_a[index.size() - 1] = k;
      of_b[index.size() - 2] = k;
      sum += at_permuted(a, a_perm, of_a) * at_permuted(b, b_perm, of_b);
    }
    expected.push_back(activated(product.activation, sum));
  });
  emulation::clear_matmul_calls();
  check_close(run_node(node).front(), expected, 2 + static_cast<double>(product.depth) / 4);
  return calls_of_a_run();
}

/// `order` with its elements in random order.
Permutation shuffled(std::size_t rank, Random& random) {
  Permutation permutation = identity(rank);
  std::shuffle(permutation.begin(), permutation.end(), random);
  return permutation;
}

std::int64_t scratch_of(const FusedProduct& product, DataType type) {
  NodeRun node{.op_type = "FusedMatMul",
               .attributes = {{"a_perm", product.a_perm},
                              {"b_perm", product.b_perm},
                              {"out_perm", product.out_perm}},
               .inputs = {Tensor::zeros(type, untransposed(product.a_shape(), product.a_perm)),
                          Tensor::zeros(type, untransposed(product.b_shape(), product.b_perm))},
               .outputs = {{type, transposed(product.out_shape(), product.out_perm)}},
               .domain = passes::internal_domain};
  const graph::Graph graph = make_graph(node);
  return Executable(graph, {.device = device_under_test()}).scratch_bytes();
}

}  // namespace

TEST_CASE("products with any permutations, broadcasting, bias and activation equal a loop") {
  Random random(11);
  const auto pick = [&](const auto& list) { return list[random() % std::size(list)]; };
  for (int round = 0; round < 400; ++round) {
    emulation::set_seed(random());
    FusedProduct product;
    const std::size_t rank = random() % 3;
    for (std::size_t d = 0; d < rank; ++d) {
      const std::int64_t extent = 1 + random() % 3;
      product.batches.push_back(extent);
      const unsigned broadcast = random() % 4;
      product.batches_a.push_back(broadcast == 0 ? 1 : extent);
      product.batches_b.push_back(broadcast == 1 ? 1 : extent);
    }
    if (random() % 4 == 0) product.batches_b.clear();
    product.rows = random() % 6;
    product.depth = pick(std::array{0, 1, 5, 8, 70});
    product.columns = pick(std::array{0, 1, 3, 8, 64, 72});
    if (random() % 2) product.a_perm = shuffled(product.a_shape().size(), random);
    if (random() % 2) product.b_perm = shuffled(product.b_shape().size(), random);
    if (random() % 2) product.out_perm = shuffled(product.out_shape().size(), random);
    product.has_bias = random() % 2;
    product.activation = pick(std::array{"", "Relu", "Gelu", "GeluTanh"});
    const DataType type = pick(float_types);
    for (std::size_t d = 0; d < rank; ++d)
      if (product.batches_b.empty() && product.batches_a[d] == 1)
        product.batches_a = product.batches;
    CAPTURE(round, name_of(type), product.a_shape(), product.b_shape(), product.a_perm,
            product.b_perm, product.out_perm, product.has_bias, product.activation);
    check_product(product, type, random);
  }
}

TEST_CASE("attention's operands are multiplied as they lie, a call for each image or each head") {
  Random random(12);
  // Images, heads, places and features are stored [B, S, H, D] and read [B, H, S, D].
  const Permutation heads_outward = {0, 2, 1, 3};
  FusedProduct scores{.batches_a = {2, 5},
                      .batches_b = {2, 5},
                      .batches = {2, 5},
                      .rows = 7,
                      .depth = 16,
                      .columns = 7,
                      .a_perm = heads_outward,
                      .b_perm = {0, 2, 3, 1},
                      .out_perm = {0, 1, 2, 3}};
  std::vector<MatmulCall> calls = check_product(scores, DataType::bfloat16, random);
  REQUIRE(calls.size() == 2);
  for (const MatmulCall& call : calls) {
    CHECK(call.batch_count == 5);
    CHECK(call.a_batch_stride == 16);  // the keys, since the row-major result is made transposed
    CHECK(call.b_batch_stride == 16);
    CHECK(call.d_batch_stride == 7 * 7);
    CHECK(call.transpose_a);
    CHECK_FALSE(call.transpose_b);
  }
  CHECK(scratch_of(scores, DataType::bfloat16) == 0);

  FusedProduct weighted{.batches_a = {2, 5},
                        .batches_b = {2, 5},
                        .batches = {2, 5},
                        .rows = 7,
                        .depth = 7,
                        .columns = 16,
                        .a_perm = {0, 1, 2, 3},
                        .b_perm = heads_outward,
                        .out_perm = heads_outward};
  calls = check_product(weighted, DataType::bfloat16, random);
  REQUIRE(calls.size() == 2);
  CHECK(calls[0].batch_count == 5);
  CHECK(calls[0].d_batch_stride == 16);
  CHECK(scratch_of(weighted, DataType::bfloat16) == 0);
}

TEST_CASE("batches that share their weights are rows of one product, others one strided batch") {
  Random random(13);
  FusedProduct shared{.batches_a = {2, 3}, .batches_b = {}, .batches = {2, 3}, .rows = 4};
  shared.depth = 6;
  shared.columns = 5;
  std::vector<MatmulCall> calls = check_product(shared, DataType::float32, random);
  REQUIRE(calls.size() == 1);
  CHECK(calls[0].batch_count == 1);
  CHECK(calls[0].n == 2 * 3 * 4);

  FusedProduct batched = shared;
  batched.batches_b = {2, 3};
  calls = check_product(batched, DataType::float32, random);
  REQUIRE(calls.size() == 1);
  CHECK(calls[0].batch_count == 6);

  FusedProduct left = shared;  // the same rows for all batches
  left.batches_a = {1, 1};
  left.batches_b = {2, 3};
  calls = check_product(left, DataType::float32, random);
  REQUIRE(calls.size() == 1);
  CHECK(calls[0].batch_count == 6);
  CHECK(calls[0].b_batch_stride == 0);
}

TEST_CASE("bias and activation are cuBLASLt's where it has them") {
  Random random(14);
  FusedProduct product{.batches_a = {}, .batches_b = {}, .batches = {}, .rows = 6};
  product.depth = 8;
  product.columns = 10;
  product.has_bias = true;
  const auto epilogue = [&](const char* activation, DataType type) {
    product.activation = activation;
    const auto calls = check_product(product, type, random);
    REQUIRE(calls.size() == 1);
    return calls[0].epilogue;
  };
  CHECK(epilogue("", DataType::float16) == CUBLASLT_EPILOGUE_BIAS);
  CHECK(epilogue("Relu", DataType::float16) == CUBLASLT_EPILOGUE_RELU_BIAS);
  CHECK(epilogue("GeluTanh", DataType::float16) == CUBLASLT_EPILOGUE_GELU_BIAS);
  // GELU by erf is no cuBLASLt epilogue, and by tanh none that is exact enough for float32.
  CHECK(epilogue("Gelu", DataType::float16) == CUBLASLT_EPILOGUE_BIAS);
  CHECK(epilogue("GeluTanh", DataType::float32) == CUBLASLT_EPILOGUE_BIAS);
  CHECK(epilogue("Relu", DataType::float64) == CUBLASLT_EPILOGUE_DEFAULT);
  product.has_bias = false;
  CHECK(epilogue("Relu", DataType::bfloat16) == CUBLASLT_EPILOGUE_RELU);
  // Columns that lie together have a bias that cuBLASLt would take for one of rows.
  product.has_bias = true;
  product.out_perm = {1, 0};
  CHECK(epilogue("", DataType::float16) == CUBLASLT_EPILOGUE_DEFAULT);
}

TEST_CASE("Gemm's C is read where it lies, or is cuBLASLt's bias, or is spread over the result") {
  Random random(15);
  const auto call = [&](const Shape& c, float beta) {
    const Tensor a = random_floats(random, {4, 8});
    const Tensor b = random_floats(random, {8, 6});
    emulation::clear_matmul_calls();
    run_node({"Gemm",
              {{"beta", beta}},
              {a, b, random_floats(random, c)},
              {{DataType::float32, {4, 6}}}});
    const auto calls = calls_of_a_run();
    REQUIRE(calls.size() == 1);
    return calls[0];
  };
  CHECK(call({6}, 1).epilogue == CUBLASLT_EPILOGUE_BIAS);
  CHECK(call({6}, 1).beta == 0);
  CHECK(call({6}, 0.5F).epilogue == CUBLASLT_EPILOGUE_DEFAULT);
  CHECK(call({6}, 0.5F).beta == 0.5);
  CHECK(call({4, 6}, 2).beta == 2);
  CHECK(call({4, 1}, 1).beta == 1);
}

TEST_CASE("a few rows times aligned weights are no cuBLASLt product, whichever way weights lie") {
  Random random(16);
  for (const DataType type : {DataType::float32, DataType::float16, DataType::bfloat16}) {
    for (const std::int64_t rows : {1, 2, 3, 4, 5}) {
      for (const bool by_columns : {false, true}) {
        for (const auto& [depth, columns] :
             {std::pair<std::int64_t, std::int64_t>{8, 64}, {264, 72}, {1032, 136}, {40, 12000}}) {
          if (columns > 1000 && rows != 1) continue;
          FusedProduct product{.batches_a = {}, .batches_b = {}, .batches = {}, .rows = rows};
          product.depth = depth;
          product.columns = columns;
          product.has_bias = random() % 2;
          product.activation = random() % 2 ? "Gelu" : "";
          if (by_columns) product.b_perm = {1, 0};
          CAPTURE(name_of(type), rows, by_columns, depth, columns);
          CHECK(check_product(product, type, random).size() == (rows <= 4 ? 0 : 1));
        }
      }
    }
  }
}

TEST_CASE("a few rows times weights that cannot be read 16 bytes at a time are cuBLASLt's") {
  Random random(17);
  for (const bool by_columns : {false, true}) {
    FusedProduct product{.batches_a = {}, .batches_b = {}, .batches = {}, .rows = 2};
    product.depth = by_columns ? 65 : 64;
    product.columns = by_columns ? 64 : 65;
    if (by_columns) product.b_perm = {1, 0};
    CHECK(check_product(product, DataType::float16, random).size() == 1);
  }
  FusedProduct odd_columns{.batches_a = {}, .batches_b = {}, .batches = {}, .rows = 2};
  odd_columns.depth = 64;
  odd_columns.columns = 67;
  odd_columns.b_perm = {1, 0};
  CHECK(check_product(odd_columns, DataType::float16, random).empty());
}

TEST_CASE("many rows that begin at no multiple of 16 bytes are computed some at a time") {
  Random random(18);
  for (const auto& [columns, calls] : {std::pair<std::int64_t, std::size_t>{1025, 3}, {1032, 1}}) {
    FusedProduct product{.batches_a = {}, .batches_b = {}, .batches = {}, .rows = 600};
    product.depth = 64;
    product.columns = columns;
    CHECK(check_product(product, DataType::bfloat16, random).size() == calls);
  }
}

TEST_CASE("NaN and infinities stay in their row, and activations keep them") {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const DataType type : {DataType::float32, DataType::float16, DataType::float64}) {
    for (const std::int64_t columns : {3, 64}) {
      std::vector<double> values(static_cast<std::size_t>(3 * 8), 1);
      values[0] = nan;
      values[8] = infinity;
      const Tensor a = tensor_of(type, {3, 8}, values);
      const Tensor b = tensor_of(type, {8, columns},
                                 std::vector<double>(static_cast<std::size_t>(8 * columns), 1));
      for (const char* activation : {"", "Gelu"}) {
        NodeRun node{.op_type = "FusedMatMul",
                     .attributes = {{"activation", std::string(activation)}},
                     .inputs = {a, b},
                     .outputs = {{type, {3, columns}}},
                     .domain = passes::internal_domain};
        const Tensor out = run_node(node).front();
        for (std::int64_t n = 0; n < columns; ++n) {
          const auto i = static_cast<std::size_t>(n);
          CHECK(std::isnan(number_at(out, i)));
          CHECK(number_at(out, static_cast<std::size_t>(columns) + i) == infinity);
          CHECK(number_at(out, static_cast<std::size_t>(2 * columns) + i) == Approx(8));
        }
      }
    }
  }
}

TEST_CASE("float32 is exact unless TF32 is allowed") {
  cuda::CudaDevice device({.allow_tf32 = true});
  const Tensor a = tensor_of(DataType::float32, {5, 1}, {1, 2, 3, 4, 5});
  const Tensor b = tensor_of(DataType::float32, {1, 1}, {1});
  const NodeRun node{"MatMul", {}, {a, b}, {{DataType::float32, {5, 1}}}};
  const graph::Graph graph = make_graph(node);
  const auto compute_on = [&](Device* each) {
    emulation::clear_matmul_calls();
    Executable(graph, {.device = each}).run();
    return calls_of_a_run().at(0).compute;
  };
  CHECK(compute_on(device_under_test()) == CUBLAS_COMPUTE_32F);
  CHECK(compute_on(&device) == CUBLAS_COMPUTE_32F_FAST_TF32);
}

TEST_CASE("a long sum's workspace is scratch memory") {
  Random random(18);
  FusedProduct product{.batches_a = {}, .batches_b = {}, .batches = {}, .rows = 5};
  product.depth = 400;
  product.columns = 3;
  const auto calls = check_product(product, DataType::float16, random);
  REQUIRE(calls.size() == 1);
  CHECK(calls[0].workspace_bytes > 0);
}

TEST_CASE("FusedMatMul is served in floating types, with the activations that it has") {
  const auto serves = [](DataType type, const char* activation) {
    const graph::Node node{"n",
                           "FusedMatMul",
                           passes::internal_domain,
                           {},
                           {},
                           {{"activation", std::string(activation)}}};
    const std::vector<TensorView> views(2, TensorView{type, {2, 2}, nullptr});
    return cuda_operators().find(node.domain, node.op_type)->serves(node, views, {views.data(), 1});
  };
  CHECK(serves(DataType::bfloat16, "Gelu"));
  CHECK(serves(DataType::float64, "Relu"));
  CHECK_FALSE(serves(DataType::float16, "Swish"));
  CHECK_FALSE(serves(DataType::int32, "Relu"));
}

TEST_CASE("a permutation that is none is an error that names the node") {
  const Tensor a = Tensor::zeros(DataType::float32, {2, 2});
  const NodeRun node{.op_type = "FusedMatMul",
                     .attributes = {{"a_perm", std::vector<std::int64_t>{0, 0}}},
                     .inputs = {a, a},
                     .outputs = {{DataType::float32, {2, 2}}},
                     .domain = passes::internal_domain};
  CHECK_THROWS_WITH(run_node(node), Catch::Contains("the_node") && Catch::Contains("a_perm"));
}

TEST_CASE(
    "Conv with few or many channels a group equals a loop, and one place windows lay out nothing") {
  Random random(19);
  struct Case {
    std::int64_t channels, out_channels, groups, size, taps, stride, pad;
    std::size_t calls;
  };
  // The loop of calls is over images or groups, whichever are fewer.
  for (const Case& c :
       {Case{4, 6, 1, 9, 1, 1, 0, 1}, Case{4, 6, 2, 9, 1, 1, 0, 2}, Case{3, 8, 1, 8, 4, 4, 0, 1},
        Case{6, 6, 6, 7, 3, 1, 1, 0}, Case{3, 6, 3, 7, 3, 2, 1, 0}, Case{4, 4, 2, 5, 3, 1, 1, 2}}) {
    for (const DataType type : float_types) {
      const std::int64_t of_group = c.channels / c.groups;
      const std::int64_t out_size = (c.size + 2 * c.pad - c.taps) / c.stride + 1;
      const Tensor x = random_in(type, {3, c.channels, c.size, c.size}, random, -1, 1);
      const Tensor w = random_in(type, {c.out_channels, of_group, c.taps, c.taps}, random, -1, 1);
      const Tensor bias = random_in(type, {c.out_channels}, random, -1, 1);
      const Shape out{3, c.out_channels, out_size, out_size};
      std::vector<double> expected;
      for_each_index(out, [&](const Shape& o) {
        double sum = at(bias, {o[1]});
        const std::int64_t first = o[1] / (c.out_channels / c.groups) * of_group;
        for_each_index({of_group, c.taps, c.taps}, [&](const Shape& k) {
          const std::int64_t row = o[2] * c.stride + k[1] - c.pad;
          const std::int64_t column = o[3] * c.stride + k[2] - c.pad;
          if (row < 0 || row >= c.size || column < 0 || column >= c.size) return;
          sum += at(x, {o[0], first + k[0], row, column}) * at(w, {o[1], k[0], k[1], k[2]});
        });
        expected.push_back(sum);
      });
      const NodeRun node{"Conv",
                         {{"group", c.groups},
                          {"strides", std::vector<std::int64_t>{c.stride, c.stride}},
                          {"pads", std::vector<std::int64_t>{c.pad, c.pad, c.pad, c.pad}}},
                         {x, w, bias},
                         {{type, out}}};
      CAPTURE(name_of(type), c.channels, c.out_channels, c.groups, c.taps);
      emulation::clear_matmul_calls();
      check_close(run_node(node).front(), expected, 12);
      CHECK(calls_of_a_run().size() == c.calls);
    }
  }
}

/// Makes a kernel of a node of 5 images that may take so many bytes for what it lays out of them.
using MakeWithin = std::unique_ptr<Kernel> (*)(const KernelRequest& request, std::int64_t bytes);

/// Runs the node in pieces of 1, 2 and 5 images, for each of which it lays out `an_image` bytes:
/// the result is that of the whole.
void check_pieces(const NodeRun& node, MakeWithin make_within, std::int64_t an_image) {
  Device& device = *device_under_test();
  const Tensor expected = run_node(node).front();
  const graph::Graph graph = make_graph(node);
  const auto memory = device.allocate(1 << 16);
  std::byte* next = memory.get();
  const auto place = [&](const Shape& shape) {
    TensorView view{DataType::float32, shape, next};
    next += (view.size_bytes() + 63) / 64 * 64;
    return view;
  };
  std::vector<TensorView> inputs;
  for (const auto& input : node.inputs) {
    inputs.push_back(place(input->shape()));
    const auto values = input->values<float>();
    device.write(inputs.back().data, std::as_bytes(values));
  }
  const std::vector<TensorView> outputs = {place(expected.shape())};
  for (const auto& [bytes, pieces] :
       {std::pair<std::int64_t, std::size_t>{0, 5}, {2 * an_image, 3}, {6 * an_image, 1}}) {
    const auto kernel = make_within({graph.nodes.front(), inputs, outputs, device}, bytes);
    CHECK(kernel->scratch_bytes() <= std::max(bytes, an_image) + 64);
    emulation::clear_matmul_calls();
    auto& cuda_device = static_cast<cuda::CudaDevice&>(device);
    device.fill(outputs[0].data, std::byte{0xFF}, outputs[0].size_bytes(),
                cuda_device.compute_stream());
    kernel->run({inputs, outputs, next, cuda_device.compute_stream()});
    CHECK(emulation::matmul_calls().size() == pieces);
    std::vector<float> result(static_cast<std::size_t>(outputs[0].elements()));
    device.read(std::as_writable_bytes(std::span(result)), outputs[0].data);
    CHECK(std::ranges::equal(result, expected.values<float>()));
  }
}

TEST_CASE("Conv takes as many images at a time as its scratch memory allows, to the same result") {
  Random random(20);
  const Tensor x = random_floats(random, {5, 2, 5, 5});
  const Tensor w = random_floats(random, {3, 2, 3, 3});
  const Tensor bias = random_floats(random, {3});
  check_pieces({"Conv", {}, {x, w, bias}, {{DataType::float32, {5, 3, 3, 3}}}},
               cuda::make_conv_within, 2 * 9 * 12 * 4);  // rows of 9 places, to whole 16 bytes
}

TEST_CASE("ConvTranspose takes images at a time that begin at no multiple of 16 bytes") {
  Random random(27);
  const Tensor x = random_floats(random, {5, 3, 3, 3});  // 108 bytes an image
  const Tensor w = random_floats(random, {3, 2, 2, 2});
  const Tensor bias = random_floats(random, {2});
  check_pieces({"ConvTranspose", {}, {x, w, bias}, {{DataType::float32, {5, 2, 4, 4}}}},
               cuda::make_conv_transpose_within, 2 * 4 * 9 * 4);
}
