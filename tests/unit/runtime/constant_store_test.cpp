// Executables of several shapes over one store: they give what separate ones give, and what they
// have of constants does not grow with their number.

#include "runtime/constant_store.h"

#include <fstream>

#include "base/mapped_file.h"
#include "base/temporary_folder.h"
#include "runtime/devices/cpu_device.h"
#include "unit/runtime/kernels_under_test.h"
#include "unit/runtime/loops.h"
#include "unit/runtime/passes/spelling.h"

namespace autopar::runtime {
namespace {

using namespace testing;

/// The device under test, the CPU where that is none.
struct Place {
  std::unique_ptr<CpuDevice> cpu = device_under_test() ? nullptr : std::make_unique<CpuDevice>(1);
  Device& device = cpu ? *cpu : *device_under_test();
  ConstantStore store{device};

  std::unique_ptr<Executable> compile(const Graph& graph, bool is_shared = true) {
    return std::make_unique<Executable>(
        graph, CompileOptions{.device = &device, .constants = is_shared ? &store : nullptr});
  }
};

std::vector<Tensor> inputs_of(const Graph& graph, unsigned seed) {
  Random random(seed);
  std::vector<Tensor> inputs;
  for (const ValueId id : graph.inputs)
    inputs.push_back(random_in(graph.value(id).type, graph.value(id).shape, random, 0.5, 1.5));
  return inputs;
}

/// The same bytes as an Executable of its own, on two inputs.
void check_equal(Place& place, Executable& shared, const Graph& graph) {
  const auto alone = place.compile(graph, false);
  for (const unsigned seed : {1U, 2U}) {
    const std::vector<Tensor> inputs = inputs_of(graph, seed);
    const auto expected = run(*alone, graph, inputs);
    const auto actual = run(shared, graph, inputs);
    for (std::size_t o = 0; o < expected.size(); ++o)
      CHECK(std::ranges::equal(actual[o].bytes(), expected[o].bytes()));
  }
}

/// What the store has, each once.
struct Counts {
  std::int64_t derived;
  std::int64_t forms;
  std::int64_t on_device;
  friend bool operator==(const Counts&, const Counts&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Counts& counts) {
    return out << counts.derived << " derived, " << counts.forms << " in forms, "
               << counts.on_device << " on the device";
  }
};
Counts counts(const ConstantStore& store) {
  return {store.derived_bytes(), store.form_bytes() - store.further_form_bytes(),
          store.device_bytes()};
}

/// A model of random layers, whose weights the graphs of all shapes have in common.
class Model {
 public:
  explicit Model(unsigned seed) : seed_(seed) {}

  /// On rows of [batch, sequence, features].
  Graph graph(std::int64_t batch, std::int64_t sequence) {
    Random random(seed_);
    // Those of products are packed where that takes no more memory.
    const auto extent = [&]() -> std::int64_t {
      return random() % 2 == 0 ? 64 : 40 + random() % 40;
    };
    Spelling s;
    next_ = 0;
    std::int64_t from = extent();
    ValueId x = s.in("x", {batch, sequence, from});
    for (int layer = 0; layer < 4; ++layer) {
      const std::int64_t to = extent();
      switch (random() % 5) {
        case 0:
          x = s.matmul(x, weight(s, {from, to}));
          break;
        case 1:  // folded
          x = s.matmul(x, s.unary("Exp", weight(s, {from, to})));
          break;
        case 2:
          x = s.matmul(x, s.permuted(weight(s, {to, from}), {1, 0}));
          break;
        case 3:  // a view of what is folded
          x = s.matmul(x, s.reshaped(s.unary("Neg", weight(s, {to, from})), {from, to}));
          break;
        default:
          x = s.binary("Add", s.matmul(x, weight(s, {from, to})), s.unary("Abs", weight(s, {to})));
      }
      from = to;
      if (random() % 2 == 0) x = s.unary("Softmax", x);
    }
    s.ends(x);
    check_invariants(s.graph);
    return s.graph;
  }

 private:
  ValueId weight(Spelling& s, const Shape& shape) {
    if (next_ == weights_.size())
      weights_.push_back(random_in(DataType::float32, shape, of_weights_, -1, 1));
    return s.graph.add_constant("weight", weights_[next_++]);
  }

  unsigned seed_;
  Random of_weights_{3};
  std::vector<Tensor> weights_;
  std::size_t next_ = 0;
};

struct Rows {
  std::int64_t batch;
  std::int64_t sequence;
};
constexpr Rows shapes[] = {{1, 37}, {1, 1}, {3, 5}};

TEST_CASE("random models of three shapes over one store give what separate Executables give") {
  for (unsigned seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    Model model(seed);
    Place place;
    std::vector<std::unique_ptr<Executable>> executables;
    std::vector<Graph> graphs;
    for (const auto& [batch, sequence] : shapes) {
      graphs.push_back(model.graph(batch, sequence));
      executables.push_back(place.compile(graphs.back()));
    }
    const Counts all = counts(place.store);
    for (const Graph& graph : graphs) executables.push_back(place.compile(graph));
    CHECK(counts(place.store) == all);
    for (std::size_t i = 0; i < executables.size(); ++i)
      check_equal(place, *executables[i], graphs[i % graphs.size()]);
  }
}

TEST_CASE("an Executable goes while others live, and comes again, in any order") {
  Random random(5);
  for (unsigned seed = 0; seed < 5; ++seed) {
    Model model(seed);
    Place place;
    std::vector<Graph> graphs;
    for (const auto& [batch, sequence] : shapes) graphs.push_back(model.graph(batch, sequence));
    std::vector<std::unique_ptr<Executable>> executables;
    for (const Graph& graph : graphs) executables.push_back(place.compile(graph));
    const Counts all = counts(place.store);
    for (int change = 0; change < 20; ++change) {
      CAPTURE(seed, change);
      const std::size_t i = random() % executables.size();
      if (executables[i]) {
        check_equal(place, *executables[i], graphs[i]);
        executables[i].reset();
      } else {
        executables[i] = place.compile(graphs[i]);
      }
      if (std::ranges::all_of(executables, [](const auto& each) { return each != nullptr; }))
        CHECK(counts(place.store) == all);
    }
    for (auto& each : executables) each.reset();
    CHECK(counts(place.store) == Counts{0, 0, 0});
    CHECK(place.store.shared_bytes() == 0);
  }
}

/// Products of a folded weight, which is packed on the CPU, of a view of one, which is not, and of
/// one as it is.
Graph products(const std::vector<Tensor>& weights, const Rows& rows) {
  Spelling s;
  ValueId x = s.in("x", {rows.batch, rows.sequence, 128});
  std::vector<ValueId> ids;
  for (const Tensor& each : weights) ids.push_back(s.graph.add_constant("weight", each));
  x = s.matmul(x, s.unary("Exp", ids[0]));
  x = s.matmul(x, s.reshaped(s.unary("Neg", ids[1]), {64, 65}));
  s.ends(s.matmul(x, ids[2]));
  return s.graph;
}

TEST_CASE("a second and a third shape add nothing to what there is of constants") {
  Random random(7);
  const std::vector<Tensor> weights = {random_in(DataType::float32, {128, 64}, random, -1, 1),
                                       random_in(DataType::float32, {65, 64}, random, -1, 1),
                                       random_in(DataType::float32, {65, 128}, random, -1, 1)};
  Place place;
  std::vector<std::unique_ptr<Executable>> executables;
  std::vector<Graph> graphs;
  std::int64_t alone = 0;
  std::int64_t sum = 0;
  std::optional<Counts> first;
  for (const Rows& rows : {Rows{1, 300}, Rows{1, 200}, Rows{3, 90}}) {
    CAPTURE(rows.batch, rows.sequence);
    graphs.push_back(products(weights, rows));
    executables.push_back(place.compile(graphs.back()));
    sum += executables.back()->derived_constant_bytes();
    if (!first) {
      alone = sum;
      first = counts(place.store);
    }
    CHECK(counts(place.store) == *first);
    CHECK(sum - place.store.shared_bytes() == alone);
  }
  CHECK(alone >= 65 * 64 * 4);
  CHECK(first->derived >= 65 * 64 * 4);
  for (std::size_t i = 0; i < graphs.size(); ++i) check_equal(place, *executables[i], graphs[i]);
  executables[0].reset();
  CHECK(counts(place.store) == *first);
  executables[0] = place.compile(graphs[0]);
  CHECK(counts(place.store) == *first);
  check_equal(place, *executables[0], graphs[0]);
}

/// A convolution, its batch normalization and one that follows, on images of any size.
Graph convolutions(const std::vector<Tensor>& weights, std::int64_t images, std::int64_t size) {
  Spelling s;
  const ValueId x = s.in("x", {images, 8, size, size});
  std::vector<ValueId> ids;
  for (const Tensor& each : weights) ids.push_back(s.graph.add_constant("weight", each));
  const Shape shape{images, 16, size - 2, size - 2};
  const ValueId conv = s.op("Conv", {x, ids[0]}, shape);
  const ValueId normal = s.op("BatchNormalization", {conv, ids[1], ids[2], ids[3], ids[4]}, shape);
  s.ends(s.op("Conv", {s.unary("Relu", normal), ids[5]}, {images, 16, size - 4, size - 4}));
  return s.graph;
}

TEST_CASE("convolutions of several sizes have their weights once") {
  Random random(8);
  std::vector<Tensor> weights{random_in(DataType::float32, {16, 8, 3, 3}, random, -1, 1)};
  for (int i = 0; i < 4; ++i)
    weights.push_back(random_in(DataType::float32, {16}, random, 0.5, 1.5));
  weights.push_back(random_in(DataType::float32, {16, 16, 3, 3}, random, -1, 1));
  Place place;
  std::vector<std::unique_ptr<Executable>> executables;
  std::vector<Graph> graphs;
  for (const std::int64_t size : {9, 20, 33}) {
    graphs.push_back(convolutions(weights, size / 9, size));
    executables.push_back(place.compile(graphs.back()));
  }
  const Counts all = counts(place.store);
  for (std::size_t i = 0; i < graphs.size(); ++i) check_equal(place, *executables[i], graphs[i]);
  executables.erase(executables.begin(), executables.begin() + 2);
  executables.push_back(place.compile(graphs[0]));
  CHECK(counts(place.store) == all);
  check_equal(place, *executables.back(), graphs[0]);
}

TEST_CASE("quantised products of several shapes have their weights once") {
  Random random(9);
  const Tensor bytes = random_in(DataType::uint8, {80, 64}, random, 0, 256);
  const auto graph = [&](std::int64_t rows) {
    Spelling s;
    const ValueId a = s.in("a", {rows, 64}, DataType::uint8);
    const ValueId b = s.graph.add_constant("b", bytes);
    const ValueId zero = s.graph.add_constant("zero", tensor_of(DataType::uint8, {}, {7}));
    const auto numbers = [&](ValueId of, double scale) {
      return s.typed(
          s.node("DequantizeLinear", {of, s.number(scale, DataType::float32), zero}, s.shape(of)),
          DataType::float32);
    };
    s.ends(s.typed(s.node("Gemm", {numbers(a, 0.5), numbers(b, 0.25)}, {rows, 80},
                          {{"transB", std::int64_t{1}}}),
                   DataType::float32));
    return s.graph;
  };
  Place place;
  const auto one = place.compile(graph(37));
  const Counts first = counts(place.store);
  const auto other = place.compile(graph(2));
  CHECK(counts(place.store) == first);
  check_equal(place, *one, graph(37));
  check_equal(place, *other, graph(2));
}

TEST_CASE("constants of one shape alone go with its Executable") {
  Place place;
  const auto graph = [](std::int64_t rows) {
    Spelling s;
    const ValueId x = s.in("x", {rows, 64});
    s.ends(s.binary("Add", x, s.unary("Exp", s.weight({rows, 64}, DataType::float32))));
    return s.graph;
  };
  const auto kept = place.compile(graph(100));
  const Counts before = counts(place.store);
  for (const std::int64_t rows : {200, 300}) {
    const auto passing = place.compile(graph(rows));
    CHECK(counts(place.store) != before);
    check_equal(place, *passing, graph(rows));
  }
  CHECK(counts(place.store) == before);
}

TEST_CASE("a file's weights are copied to a device once, and pages that were given back are read") {
  Random random(4);
  const TemporaryFolder folder;
  const Tensor numbers = random_in(DataType::float32, {200, 300}, random, -1, 1);
  std::ofstream(folder / "weights", std::ios::binary)
      .write(reinterpret_cast<const char*>(numbers.data()), numbers.size_bytes());
  const auto file = MappedFile::open(folder / "weights");
  const Tensor weights = Tensor::mapped(DataType::float32, {200, 300}, file->bytes().data(), file);
  const auto graph = [&](std::int64_t rows) {
    Spelling s;
    const ValueId x = s.in("x", {rows, 200});
    s.ends(s.matmul(x, s.graph.add_constant("weights", weights)));
    return s.graph;
  };
  Place place;
  auto one = place.compile(graph(1));
  check_equal(place, *one, graph(1));
  one.reset();
  const std::int64_t on_device = place.store.device_bytes();
  CHECK(on_device == (place.device.shares_host_memory() ? 0 : weights.size_bytes()));
  const double seconds = place.store.upload_seconds();
  const auto other = place.compile(graph(9));
  check_equal(place, *other, graph(9));
  CHECK(place.store.device_bytes() == on_device);
  CHECK(place.store.upload_seconds() == seconds);
}

TEST_CASE("a tensor that takes another's place in memory is another constant") {
  Place place;
  for (int round = 0; round < 50; ++round) {
    Spelling s;
    s.random.seed(static_cast<unsigned>(round));
    const ValueId x = s.in("x", {2, 50});
    s.ends(s.matmul(x, s.unary("Exp", s.weight({50, 60}, DataType::float32))));
    const auto executable = place.compile(s.graph);
    check_equal(place, *executable, s.graph);
  }
}

TEST_CASE("random numbers of nodes that differ in their names alone differ") {
  Spelling s;
  const ValueId x = s.in("x", {40, 50});
  const ValueId like = s.weight({40, 50}, DataType::float32);
  for (int i = 0; i < 2; ++i) s.ends(s.binary("Add", x, s.unary("RandomNormalLike", like)));
  Place place;
  const auto executable = place.compile(s.graph);
  const auto out = run(*executable, s.graph, inputs_of(s.graph, 1));
  CHECK_FALSE(std::ranges::equal(out[0].bytes(), out[1].bytes()));
  check_equal(place, *executable, s.graph);
}

}  // namespace
}  // namespace autopar::runtime
