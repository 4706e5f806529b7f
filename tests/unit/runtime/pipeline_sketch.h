#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "run_node.h"

/// Stages of pipelines, written down by hand: elementwise work on matrices that each stage splits
/// in its own way.
namespace autopar::runtime::testing {

using graph::Graph;
using graph::Range;
using graph::ValueId;
using Box = std::vector<Range>;

/// The part of a matrix that each rank of a stage has, by world rank.
using Layout = std::map<int, Box>;

inline Shape shape_of(const Box& box) {
  Shape shape;
  for (const Range& range : box) shape.push_back(range.size());
  return shape;
}

/// Every rank has rows or columns between its cut and the next.
inline Layout split(const Shape& shape, std::size_t dim, int first_rank,
                    const std::vector<std::int64_t>& cuts) {
  Layout layout;
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
    Box box;
    for (const std::int64_t extent : shape) box.push_back({0, extent});
    box[dim] = {cuts[i], cuts[i + 1]};
    layout[first_rank + static_cast<int>(i)] = box;
  }
  return layout;
}

inline Box overlap_of(const Box& a, const Box& b) {
  Box both;
  for (std::size_t d = 0; d < a.size(); ++d) {
    const std::int64_t begin = std::max(a[d].begin, b[d].begin);
    both.push_back({begin, std::max(begin, std::min(a[d].end, b[d].end))});
  }
  return both;
}

/// One rank's graph of a stage.
struct StageSketch {
  int rank = 0;
  Graph graph = {};

  ValueId value(const std::string& name, const Shape& shape) {
    return graph.add_value({name, DataType::float32, shape, std::nullopt});
  }
  ValueId input(const std::string& name, const Layout& layout) {
    graph.inputs.push_back(value(name, shape_of(layout.at(rank))));
    return graph.inputs.back();
  }
  ValueId node(const std::string& op_type, const std::vector<ValueId>& inputs,
               const std::string& name) {
    const ValueId output = value(name, graph.value(inputs[0]).shape);
    graph.nodes.push_back({name + ":" + op_type, op_type, "", inputs, {output}, {}});
    return output;
  }
  ValueId receive(const std::string& name, const Layout& from, const Layout& to) {
    const Box& mine = to.at(rank);
    const ValueId output = value(name, shape_of(mine));
    graph::Node node{name + ":Recv", "Recv", graph::collective_domain, {}, {output}, {}};
    node.attributes = messages(rank, mine, from);
    node.attributes["shape"] = shape_of(mine);
    node.attributes["dtype"] = std::int64_t{1};
    graph.nodes.push_back(std::move(node));
    return output;
  }
  void send(ValueId id, const Layout& from, const Layout& to) {
    graph::Node node{
        graph.value(id).name + ":Send", "Send", graph::collective_domain, {id}, {}, {}};
    node.attributes = messages(rank, from.at(rank), to);
    graph.nodes.push_back(std::move(node));
  }

 private:
  /// With all others that have a part of what this rank has.
  static std::map<std::string, Attribute> messages(int rank, const Box& mine,
                                                   const Layout& others) {
    std::vector<std::int64_t> peers;
    std::vector<std::int64_t> starts;
    std::vector<std::int64_t> ends;
    for (const auto& [peer, theirs] : others) {
      const Box both = overlap_of(mine, theirs);
      if (graph::num_elements(shape_of(both)) == 0) continue;
      peers.push_back(peer);
      for (std::size_t d = 0; d < both.size(); ++d) {
        starts.push_back(both[d].begin - mine[d].begin);
        ends.push_back(both[d].end - mine[d].begin);
      }
    }
    return {{"rank", std::int64_t{rank}}, {"peers", peers}, {"starts", starts}, {"ends", ends}};
  }
};

/// A pipeline of one to three stages, and the same as one graph.
///
///   h = Tanh(x)   n = Neg(x)             stage 0, of two ranks: columns
///   k = Add(h, c)                        stage 1, of one rank, which has input c and relays n
///   y = Mul(k, n)   z = Add(k, d)        stage 2, of three ranks: rows; the last has none
struct PipelineSketch {
  Shape shape = {5, 6};
  int stages = 3;
  std::vector<std::vector<int>> ranks = {{0, 1}, {2}, {3, 4, 5}};
  Layout first = split(shape, 1, 0, {0, 4, 6});
  Layout second = split(shape, 0, 2, {0, 5});
  Layout third = split(shape, 0, 3, {0, 2, 5, 5});

  Graph whole() const {
    StageSketch s{0};
    const Layout all = split(shape, 0, 0, {0, 5});
    const ValueId x = s.input("x", all);
    const ValueId c = s.input("c", all);
    const ValueId d = s.input("d", all);
    const ValueId h = s.node("Tanh", {x}, "h");
    const ValueId n = s.node("Neg", {x}, "n");
    const ValueId k = s.node("Add", {h, c}, "k");
    s.graph.outputs = {s.node("Mul", {k, n}, "y"), s.node("Add", {k, d}, "z")};
    return s.graph;
  }

  int world_size() const { return 6; }

  Graph of_rank(int rank) const {
    StageSketch s{rank};
    if (first.contains(rank)) {
      const ValueId x = s.input("x", first);
      const ValueId h = s.node("Tanh", {x}, "h");
      const ValueId n = s.node("Neg", {x}, "n");
      s.send(h, first, second);
      s.send(n, first, second);
      s.send(x, first, second);  // which nobody reads there
    } else if (second.contains(rank)) {
      const ValueId c = s.input("c", second);
      const ValueId h = s.receive("h", first, second);
      const ValueId n = s.receive("n", first, second);
      s.receive("unread", first, second);
      const ValueId k = s.node("Add", {h, c}, "k");
      s.send(k, second, third);
      s.send(n, second, third);
    } else {
      const ValueId d = s.input("d", third);
      const ValueId k = s.receive("k", second, third);
      const ValueId n = s.receive("n", second, third);
      s.graph.outputs = {s.node("Mul", {k, n}, "y"), s.node("Add", {k, d}, "z")};
    }
    return s.graph;
  }
};

}  // namespace autopar::runtime::testing
