// Ranks between whose convolutions collectives stand compute what one rank computes, whether they
// all choose the same order for the images or not.

#include <array>
#include <catch2/catch.hpp>
#include <numeric>
#include <set>

#include "runtime/collectives.h"
#include "runtime/comm/ranks.h"
#include "runtime/run_bytes.h"
#include "unit/runtime/passes/spelling.h"

using namespace autopar;
using namespace autopar::runtime;
using namespace autopar::runtime::testing;
using graph::Graph;
using graph::ValueId;

namespace {

using Ints = std::vector<std::int64_t>;
constexpr std::size_t ranks = 3;
constexpr std::size_t channel_dim = 1;
constexpr std::size_t height_dim = 2;

/// The elements from `begin` to `end` along a dimension.
Tensor cut(const Tensor& tensor, std::size_t dim, std::int64_t begin, std::int64_t end) {
  std::vector<graph::Range> ranges;
  for (const std::int64_t extent : tensor.shape()) ranges.push_back({0, extent});
  ranges[dim] = {begin, end};
  return tensor.slice(ranges).contiguous_copy();
}

/// An image, which each rank has whole, or cut along a dimension.
struct Image {
  ValueId whole;
  std::array<ValueId, ranks> of_rank;
  std::optional<std::size_t> dim = {};
  Ints sizes = {};  ///< along it, by rank

  std::int64_t begin(std::size_t rank) const {
    return std::accumulate(sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(rank),
                           std::int64_t{0});
  }
};

/// A network as one rank has it, and its shards.
struct Sharded {
  Random random;
  Spelling whole;
  std::array<Spelling, ranks> shards;

  std::int64_t draw(std::int64_t from, std::int64_t to) {
    return from + static_cast<std::int64_t>(random() % static_cast<unsigned>(to - from + 1));
  }
  Shape shape_of(const Image& x) const { return whole.shape(x.whole); }

  Image input(const Shape& shape) {
    Image x{whole.in("x", shape), {}};
    for (std::size_t r = 0; r < ranks; ++r) x.of_rank[r] = shards[r].in("x", shape);
    return x;
  }
  /// Shares of any size, but for the last one, which is never empty.
  Ints shares(std::int64_t extent) {
    if (draw(0, 1) == 0) return {extent / 3, extent / 3, extent - extent / 3 * 2};
    std::array<std::int64_t, 2> ends = {draw(1, extent - 1), draw(1, extent - 1)};
    std::ranges::sort(ends);
    return {ends[0], ends[1] - ends[0], extent - ends[1]};
  }
  Shape share_of(Shape shape, const Image& x, std::size_t rank) const {
    if (x.dim) shape[*x.dim] = x.sizes[rank];
    return shape;
  }

  /// The same node everywhere, on what each rank has.
  Image everywhere(const Image& x, const std::string& op_type,
                   const std::map<std::string, Attribute>& attributes = {}) {
    Image y = x;
    y.whole = whole.op(op_type, {x.whole}, shape_of(x), attributes);
    for (std::size_t r = 0; r < ranks; ++r)
      y.of_rank[r] =
          shards[r].op(op_type, {x.of_rank[r]}, shards[r].shape(x.of_rank[r]), attributes);
    return y;
  }
  Image collective(const Image& x, const Image& as, const std::string& op_type,
                   std::map<std::string, Attribute> attributes) {
    attributes["mesh_axes"] = Ints{0};
    attributes["ranks"] = Ints{0, 1, 2};
    Image y = as;
    for (std::size_t r = 0; r < ranks; ++r) {
      y.of_rank[r] =
          shards[r].op(op_type, {x.of_rank[r]}, share_of(shape_of(as), as, r), attributes);
      shards[r].graph.nodes.back().domain = graph::collective_domain;
    }
    return y;
  }
  Image gathered(const Image& x) {
    return collective(x, {x.whole, {}}, "AllGather",
                      {{"dim", static_cast<std::int64_t>(*x.dim)}, {"sizes", x.sizes}});
  }
  /// Cut along another dimension.
  Image exchanged(const Image& x, std::size_t dim) {
    const Image y{x.whole, {}, dim, shares(shape_of(x)[dim])};
    return collective(x, y, "AllToAll",
                      {{"split_dim", static_cast<std::int64_t>(dim)},
                       {"split_sizes", y.sizes},
                       {"concat_dim", static_cast<std::int64_t>(*x.dim)},
                       {"concat_sizes", x.sizes}});
  }

  Tensor weights(std::int64_t channels, std::int64_t of, std::int64_t taps) {
    return random_in(DataType::float32, {channels, of, taps, taps}, random, -0.3, 0.3);
  }
  static ValueId conv(Spelling& at, ValueId x, const Tensor& weights, std::int64_t groups = 1) {
    Shape shape = at.shape(x);
    shape[channel_dim] = weights.shape()[0];
    return at.op("Conv", {x, at.graph.add_constant("w", weights)}, shape,
                 {{"pads", Ints(4, weights.shape()[2] / 2)}, {"group", groups}});
  }
  /// A convolution of a whole image, of whose result each rank makes some channels.
  Image conv_by_results(const Image& x, std::int64_t channels, std::int64_t taps) {
    const Tensor w = weights(channels, shape_of(x)[channel_dim], taps);
    Image y{conv(whole, x.whole, w), {}, channel_dim, shares(channels)};
    for (std::size_t r = 0; r < ranks; ++r)
      y.of_rank[r] = conv(shards[r], x.of_rank[r], cut(w, 0, y.begin(r), y.begin(r) + y.sizes[r]));
    return y;
  }
  Image conv_of_each_channel(const Image& x) {
    const Tensor w = weights(shape_of(x)[channel_dim], 1, 3);
    Image y = x;
    y.whole = conv(whole, x.whole, w, w.shape()[0]);
    for (std::size_t r = 0; r < ranks; ++r)
      y.of_rank[r] =
          conv(shards[r], x.of_rank[r], cut(w, 0, x.begin(r), x.begin(r) + x.sizes[r]), x.sizes[r]);
    return y;
  }
  /// A convolution of an image cut by channels: each rank sums up its own, and the ranks' sums are
  /// added.
  Image conv_by_operands(const Image& x, std::int64_t channels, bool scatters) {
    const Tensor w = weights(channels, shape_of(x)[channel_dim], 3);
    Image sums{conv(whole, x.whole, w), {}};
    for (std::size_t r = 0; r < ranks; ++r)
      sums.of_rank[r] =
          conv(shards[r], x.of_rank[r], cut(w, 1, x.begin(r), x.begin(r) + x.sizes[r]));
    if (!scatters) return collective(sums, {sums.whole, {}}, "AllReduce", {{"reduce", "sum"}});
    const Image y{sums.whole, {}, channel_dim, shares(channels)};
    return collective(
        sums, y, "ReduceScatter",
        {{"reduce", "sum"}, {"dim", static_cast<std::int64_t>(channel_dim)}, {"sizes", y.sizes}});
  }

  Image layer(const Image& x) {
    const std::int64_t channels = draw(3, 9);
    if (draw(0, 3) == 0) return everywhere(x, "Relu");
    if (!x.dim) return conv_by_results(x, channels, draw(0, 1) * 2 + 1);
    if (*x.dim == height_dim) return exchanged(x, channel_dim);
    switch (draw(0, 4)) {
      case 0:
        return gathered(x);
      case 1:
        return exchanged(x, height_dim);
      case 2:
        return std::ranges::count(x.sizes, 0) == 0 ? conv_of_each_channel(x) : gathered(x);
      default:
        return conv_by_operands(x, channels, draw(0, 1) == 0);
    }
  }
  void end(const Image& x) {
    const Image y = x.dim ? gathered(x) : x;
    whole.ends(y.whole);
    for (std::size_t r = 0; r < ranks; ++r) shards[r].ends(y.of_rank[r]);
  }
};

struct RankResult {
  Tensor output;
  std::int64_t bytes = 0;  ///< beside the weights
};

/// Runs all shards, each in a thread, on one input.
std::vector<RankResult> run_shards(const Sharded& network, const Tensor& x) {
  std::vector<RankResult> results(ranks);
  Ranks::in_threads(ranks, std::chrono::minutes(1))
      .run_as_rank([&](HostCommunicator& world, const LocalRanks&) {
        const auto r = static_cast<std::size_t>(world.rank());
        const Graph& shard = network.shards[r].graph;
        CollectiveContext collectives(world);
        Executable executable(shard, {.threads = 1, .collectives = &collectives});
        results[r].output = run(executable, shard, {x}).front();
        results[r].bytes = executable.derived_constant_bytes() + executable.arena_bytes() -
                           executable.scratch_bytes();
      });
  return results;
}

std::uint64_t digest_of_choice(const Graph& shard) {
  Graph chosen = shard;
  passes::optimize(chosen, cpu_kernels());
  return passes::digest_of_moved_collectives(chosen);
}

}  // namespace

TEST_CASE("Collectives between convolutions move images with their channels last") {
  Sharded network;
  const Image a = network.conv_by_results(network.input({1, 4, 6, 6}), 6, 3);
  const Image b = network.conv_by_operands(a, 6, true);
  const Image c = network.everywhere(network.exchanged(b, height_dim), "Relu");
  const Image d = network.gathered(network.exchanged(c, channel_dim));
  network.end(network.conv_by_operands(network.conv_by_results(d, 6, 3), 6, false));
  Graph moved = network.shards[1].graph;
  passes::move_channels_last(moved, every_kernel());
  check_invariants(moved);
  CHECK(count(moved, "Transpose") == 2);
  const graph::Node& scatter = only(moved, "ReduceScatter");
  CHECK(scatter.int_attribute("dim", 0) == 3);
  CHECK(moved.value(scatter.outputs[0]).shape[3] == b.sizes[1]);
}

TEST_CASE(
    "Ranks compute what one rank computes in the memory predicted, whether they choose one order "
    "or not") {
  int moved = 0;
  int different = 0;
  for (unsigned seed = 0; seed < 120; ++seed) {
    Sharded network;
    network.random.seed(seed);
    Image x = network.input({network.draw(1, 2), 4, 5, 4});
    for (int layer = 0; layer < 8; ++layer) x = network.layer(x);
    network.end(x);
    CAPTURE(seed);
    const auto none = passes::digest_of_moved_collectives(network.shards[0].graph);
    std::set<std::uint64_t> choices;
    for (const Spelling& shard : network.shards) choices.insert(digest_of_choice(shard.graph));
    moved += choices.size() == 1 && *choices.begin() != none ? 1 : 0;
    different += choices.size() > 1 ? 1 : 0;

    const Tensor input =
        random_floats(network.random, network.whole.shape(network.whole.graph.inputs[0]));
    Executable whole(network.whole.graph, {.threads = 1, .optimize = false});
    const auto expected = doubles(run(whole, network.whole.graph, {input}).front());
    const auto found = run_shards(network, input);
    for (std::size_t r = 0; r < ranks; ++r) {
      CHECK(found[r].bytes <= packed_graph(network.shards[r].graph, cpu_kernels(), 1).bytes);
      const auto values = doubles(found[r].output);
      REQUIRE(values.size() == expected.size());
      for (std::size_t i = 0; i < values.size(); ++i)
        REQUIRE(values[i] == Approx(expected[i]).epsilon(1e-4).margin(1e-4));
    }
  }
  CHECK(moved > 20);
  CHECK(different > 5);
}
