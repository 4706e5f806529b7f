#include "runtime/check_collectives.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "base/file_digest.h"
#include "runtime/gather.h"

namespace autopar::runtime {
namespace {

using graph::Graph;
using graph::Node;
using graph::Shape;
using Sizes = std::vector<std::int64_t>;

bool is_collective(const Node& node) {
  return node.domain == graph::collective_domain && node.op_type != "Send" &&
         node.op_type != "Recv";
}

/// One collective, and the attributes that its kind has.
struct Collective {
  const Graph& shard;
  const Node& node;

  const graph::Value& input() const { return shard.value(node.inputs[0]); }
  const graph::Value& output() const { return shard.value(node.outputs[0]); }
  Sizes ranks() const { return node.ints_attribute("ranks", {}); }
  Sizes axes() const { return node.ints_attribute("mesh_axes", {}); }
  std::int64_t number(const char* name) const { return node.int_attribute(name, -1); }
};

/// A dimension that a kind cuts: the attributes that name it and its shares, and whether the input
/// has the whole of it and the output one share, or the other way round.
struct Cut {
  const char* dim;
  const char* sizes;
  bool is_whole_in_input;
};

std::span<const Cut> cuts_of(const std::string& op_type) {
  static constexpr Cut gather[] = {{"dim", "sizes", false}};
  static constexpr Cut scatter[] = {{"dim", "sizes", true}};
  static constexpr Cut all_to_all[] = {{"split_dim", "split_sizes", true},
                                       {"concat_dim", "concat_sizes", false}};
  if (op_type == "AllGather") return gather;
  if (op_type == "ReduceScatter") return scatter;
  if (op_type == "AllToAll") return all_to_all;
  return {};
}

class Check {
 public:
  Check(const Collective& collective, std::int64_t rank) : c_(collective), rank_(rank) {}

  void all(const bundle::MetaInfo& info) {
    group(info);
    that(c_.input().type == c_.output().type, "has an output of another type");
    Shape expected = c_.input().shape;
    for (const Cut& cut : cuts_of(c_.node.op_type)) apply(cut, expected);
    that(c_.output().shape == expected, "has an output of another shape");
    if (c_.node.has_attribute("rank"))
      that(c_.number("rank") == place_, "has another rank's share");
    if (c_.node.op_type == "Broadcast") {
      const std::int64_t root = c_.number("root");
      that(root >= 0 && root < std::ssize(c_.ranks()), "has a root outside its group");
    }
  }

 private:
  void that(bool holds, const char* what) const {
    if (!holds)
      fail("rank {}: node '{}': {} {}; partition the model again", rank_, c_.node.name,
           c_.node.op_type, what);
  }

  /// One of the stage's groups along the axes.
  void group(const bundle::MetaInfo& info) {
    const Sizes ranks = c_.ranks();
    const auto is_it = [](int a, std::int64_t b) { return std::cmp_equal(a, b); };
    const int stage = info.ranks[static_cast<std::size_t>(rank_)].stage;
    bool is_known = false;
    for (const bundle::GroupInfo& each : info.groups) {
      if (each.stage != stage || !std::ranges::equal(each.mesh_axes, c_.axes(), is_it)) continue;
      for (const std::vector<int>& members : each.ranks)
        is_known = is_known || std::ranges::equal(members, ranks, is_it);
    }
    that(is_known, "has a group that meta-info.json has not");
    const auto own = std::ranges::find(ranks, rank_);
    that(own != ranks.end(), "has a group without this rank");
    place_ = own - ranks.begin();
  }

  /// What the cut makes of a shape.
  void apply(const Cut& cut, Shape& shape) const {
    const std::int64_t dim = c_.number(cut.dim);
    that(dim >= 0 && dim < std::ssize(shape), "cuts a dimension that its tensor has not");
    const Sizes sizes = c_.node.ints_attribute(cut.sizes, {});
    that(sizes.size() == c_.ranks().size() &&
             std::ranges::all_of(sizes, [](std::int64_t size) { return size >= 0; }),
         "has other shares than its group has ranks");
    std::int64_t whole = 0;
    for (const std::int64_t size : sizes) whole = checked_add(whole, size, c_.node.name);
    const std::int64_t share = sizes[static_cast<std::size_t>(place_)];
    std::int64_t& extent = shape[static_cast<std::size_t>(dim)];
    that(extent == (cut.is_whole_in_input ? whole : share), "has shares that are not its tensor's");
    extent = cut.is_whole_in_input ? share : whole;
  }

  Collective c_;
  std::int64_t rank_;
  std::int64_t place_ = 0;  ///< in the group
};

/// The same on all members of the group.
std::string common_text(const Collective& collective) {
  Shape uncut = collective.input().shape;
  std::string text =
      fmt::format("{} {} {} {}", collective.node.op_type, name_of(collective.input().type),
                  collective.node.string_attribute("reduce", ""), collective.number("root"));
  for (const Cut& cut : cuts_of(collective.node.op_type)) {
    const std::int64_t dim = collective.number(cut.dim);
    const Sizes sizes = collective.node.ints_attribute(cut.sizes, {});
    text += fmt::format(" {}: {}", dim, fmt::join(sizes, ","));
    uncut[static_cast<std::size_t>(dim)] = 0;
  }
  return text + " " + graph::to_string(uncut) + "\n";
}

}  // namespace

void check_collectives(const bundle::MetaInfo& info, const Graph& shard, int rank) {
  for (const Node& node : shard.nodes)
    if (is_collective(node)) Check({shard, node}, rank).all(info);
}

void compare_collectives(const Graph& shard, HostCommunicator& world) {
  std::map<Sizes, Xxh3Stream> streams;
  for (const Node& node : shard.nodes) {
    if (!is_collective(node)) continue;
    const Collective collective{shard, node};
    const std::string text = common_text(collective);
    streams[collective.ranks()].add(std::as_bytes(std::span(text)));
  }
  std::map<Sizes, std::string> mine;
  for (const auto& [ranks, stream] : streams) mine.emplace(ranks, stream.digest());
  const std::vector<nlohmann::json> all = gather_json(mine, world);
  for (const auto& [ranks, digest] : mine) {
    for (const std::int64_t member : ranks) {
      const auto other = all.at(static_cast<std::size_t>(member)).get<decltype(mine)>();
      const auto found = other.find(ranks);
      if (found == other.end() || found->second != digest)
        fail("ranks {} and {} have shards of other collectives; partition the model again",
             world.rank(), member);
    }
  }
}

}  // namespace autopar::runtime
