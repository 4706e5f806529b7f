#pragma once

#include <onnx/checker.h>
#include <onnx/onnx_pb.h>
#include <onnx/shape_inference/implementation.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "unit/graph/onnx_registry.h"

/// Checks a bundle as a stranger would who knows ONNX, meta-info.json, plan.json and the words of
/// the design: nothing of lib/partition, lib/sharding or lib/bundle is used.
namespace autopar::stranger {

using Json = nlohmann::json;
using Ints = std::vector<std::int64_t>;

inline Json read_json(const std::filesystem::path& file) {
  std::ifstream stream(file);
  REQUIRE(stream);
  return Json::parse(stream);
}

struct Interval {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  friend bool operator==(const Interval&, const Interval&) = default;
};

/// The share of a rank: of each dimension, for one axis after the other, the coordinate's piece of
/// ceil(size / axis size) elements.
inline std::vector<Interval> share(const std::string& spec, const Ints& shape, const Ints& mesh,
                                   std::int64_t rank) {
  Ints coordinates(mesh.size());
  for (std::size_t axis = mesh.size(); axis-- > 0; rank /= mesh[axis])
    coordinates[axis] = rank % mesh[axis];
  std::vector<Interval> result;
  for (const char c : spec) {
    if (c == 'R' || c == 'S') {
      result.push_back({0, shape.at(result.size())});
    } else if (c != '.') {
      const auto axis = static_cast<std::size_t>(c - '0');
      Interval& interval = result.back();
      const std::int64_t size = interval.end - interval.begin;
      const std::int64_t piece = (size + mesh.at(axis) - 1) / mesh.at(axis);
      const std::int64_t first = std::min(size, coordinates[axis] * piece);
      const std::int64_t last = std::min(size, first + piece);
      interval = {interval.begin + first, interval.begin + last};
    }
  }
  REQUIRE(result.size() == shape.size());
  return result;
}

struct TypeAndShape {
  int type = 0;
  Ints shape;

  std::int64_t bytes() const {
    static const std::map<int, std::int64_t> sizes{
        {onnx::TensorProto::FLOAT, 4}, {onnx::TensorProto::INT64, 8}, {onnx::TensorProto::BOOL, 1}};
    std::int64_t result = sizes.at(type);
    for (const std::int64_t extent : shape) result *= extent;
    return result;
  }
};

inline Ints dims_of(const onnx::TensorProto& tensor) {
  return {tensor.dims().begin(), tensor.dims().end()};
}

/// One rank's ONNX file with everything that is told of its values.
class Shard {
 public:
  Shard(const std::filesystem::path& folder, const std::string& file) : folder_(folder) {
    std::ifstream stream(folder / file, std::ios::binary);
    REQUIRE(model_.ParseFromIstream(&stream));
    graph::tell_onnx_of_collectives();
    onnx::checker::check_model((folder / file).string(), /*full_check=*/true);
    infer();
    for (const auto& value : model_.graph().input()) add(value);
    for (const auto& value : model_.graph().output()) add(value);
    for (const auto& value : model_.graph().value_info()) add(value);
    for (const auto& tensor : model_.graph().initializer()) {
      values_[tensor.name()] = {tensor.data_type(), dims_of(tensor)};
      initializers_[tensor.name()] = &tensor;
    }
  }

  const onnx::GraphProto& graph() const { return model_.graph(); }
  const TypeAndShape& value(const std::string& name) const { return values_.at(name); }
  const std::map<std::string, const onnx::TensorProto*>& initializers() const {
    return initializers_;
  }

  std::string data(const onnx::TensorProto& tensor) const {
    if (tensor.data_location() != onnx::TensorProto::EXTERNAL) return tensor.raw_data();
    std::map<std::string, std::string> entries;
    for (const auto& entry : tensor.external_data()) entries[entry.key()] = entry.value();
    std::ifstream stream(folder_ / entries.at("location"), std::ios::binary);
    stream.seekg(std::stoll(entries.at("offset")));
    std::string bytes(std::stoull(entries.at("length")), '\0');
    stream.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    REQUIRE(stream);
    return bytes;
  }

 private:
  /// Inference from the inputs alone, strict, must come to what the file says of its outputs.
  void infer() const {
    onnx::ModelProto stripped = model_;
    stripped.mutable_graph()->clear_value_info();
    onnx::shape_inference::InferShapes(
        stripped, onnx::OpSchemaRegistry::Instance(),
        onnx::ShapeInferenceOptions(/*check_type=*/true, /*strict_mode=*/1,
                                    /*data_propagation=*/true));
  }

  void add(const onnx::ValueInfoProto& value) {
    TypeAndShape& entry = values_[value.name()];
    entry.type = value.type().tensor_type().elem_type();
    for (const auto& dim : value.type().tensor_type().shape().dim())
      entry.shape.push_back(dim.dim_value());
  }

  std::filesystem::path folder_;
  onnx::ModelProto model_;
  std::map<std::string, TypeAndShape> values_;
  std::map<std::string, const onnx::TensorProto*> initializers_;
};

inline Ints ints(const onnx::NodeProto& node, const std::string& name) {
  for (const auto& attribute : node.attribute())
    if (attribute.name() == name) return {attribute.ints().begin(), attribute.ints().end()};
  FAIL(node.name() << " lacks " << name);
  return {};
}

inline std::int64_t integer(const onnx::NodeProto& node, const std::string& name) {
  for (const auto& attribute : node.attribute())
    if (attribute.name() == name) return attribute.i();
  FAIL(node.name() << " lacks " << name);
  return 0;
}

inline std::vector<const onnx::NodeProto*> collectives_of(const Shard& shard) {
  std::vector<const onnx::NodeProto*> result;
  for (const auto& node : shard.graph().node())
    if (node.domain() == "autopar") result.push_back(&node);
  return result;
}

class BundleChecker {
 public:
  explicit BundleChecker(const std::filesystem::path& folder)
      : meta_(read_json(folder / "meta-info.json")), plan_(read_json(folder / "plan.json")) {
    for (const Json& axis : meta_["stages"][0]["mesh"]) mesh_.push_back(axis["size"]);
    for (const Json& rank : meta_["ranks"]) {
      std::int64_t bytes = 0;
      for (const Json& file : rank["files"]) {
        bytes = static_cast<std::int64_t>(
            std::filesystem::file_size(folder / file["name"].get<std::string>()));
        CHECK(file["bytes"] == bytes);
      }
      shards_.emplace_back(std::make_unique<Shard>(folder, rank["files"][0]["name"]));
    }
    if (!meta_["tail"].is_null())
      for (const Json& file : meta_["tail"]["files"])
        CHECK(file["bytes"] ==
              std::filesystem::file_size(folder / file["name"].get<std::string>()));
  }

  void check(const graph::Graph& whole) const {
    check_ports();
    check_tail();
    check_weights(whole);
    check_collectives_meet();
    check_communicated_bytes();
  }

 private:
  /// Inputs and outputs lie as meta-info says.
  void check_ports() const {
    for (const char* kind : {"inputs", "outputs"}) {
      for (const Json& port : meta_["profiles"][0][kind]) {
        const Ints shape = port["shape"];
        for (std::size_t rank = 0; rank < shards_.size(); ++rank) {
          const auto expected =
              share(port["specs"][0], shape, mesh_, static_cast<std::int64_t>(rank));
          const Json& ranges = port["ranges"].at(rank);
          Ints local;
          for (std::size_t dim = 0; dim < expected.size(); ++dim) {
            CHECK(ranges.at(dim) == Json{expected[dim].begin, expected[dim].end});
            local.push_back(expected[dim].end - expected[dim].begin);
          }
          CHECK(shards_[rank]->value(port["name"]).shape == local);
        }
      }
    }
  }

  /// The tail reads what there is, and the model's outputs are the ranks' or its own.
  void check_tail() const {
    CHECK(meta_["version"] == 7);
    if (meta_["tail"].is_null()) return;
    const Json& tail = meta_["tail"];
    const Json& profile = meta_["profiles"][0];
    const auto has = [](const Json& ports, const Json& name) {
      return std::ranges::any_of(ports, [&](const Json& port) { return port["name"] == name; });
    };
    for (const Json& name : tail["inputs"])
      CHECK((has(profile["inputs"], name) || has(profile["outputs"], name)));
    for (const Json& name : tail["model_outputs"])
      CHECK(has(profile["outputs"], name) != has(tail["outputs"], name));
  }

  /// Puts every weight together from the ranks' shares, byte by byte.
  void check_weights(const graph::Graph& whole) const {
    for (const graph::Value& value : whole.values) {
      if (!value.constant) continue;
      INFO("weight " << value.name);
      const std::string spec = stored_spec(value.name);
      const graph::Tensor copy = value.constant->contiguous_copy();
      const auto* original = reinterpret_cast<const char*>(copy.data());
      const auto total = static_cast<std::size_t>(copy.size_bytes());
      const std::size_t element = value.shape.empty() || copy.elements() == 0
                                      ? total
                                      : total / static_cast<std::size_t>(copy.elements());
      std::vector<bool> covered(total);
      bool is_read = false;
      for (std::size_t rank = 0; rank < shards_.size(); ++rank) {
        const auto found = shards_[rank]->initializers().find(value.name);
        if (found == shards_[rank]->initializers().end()) continue;
        is_read = true;
        auto ranges = share(spec, value.shape, mesh_, static_cast<std::int64_t>(rank));
        const Ints local = dims_of(*found->second);
        // Integers that tell a shape are whole, whatever was planned.
        if (value.type == graph::DataType::int64 && local == value.shape)
          for (std::size_t d = 0; d < local.size(); ++d) ranges[d] = {0, local[d]};
        const std::string data = shards_[rank]->data(*found->second);
        std::size_t at = 0;
        for_each_element(value.shape, ranges, [&](std::size_t index) {
          REQUIRE(data.compare(at, element, original + index * element, element) == 0);
          std::fill_n(covered.begin() + static_cast<std::ptrdiff_t>(index * element), element,
                      true);
          at += element;
        });
        CHECK(at == data.size());
      }
      const bool is_whole = std::ranges::find(covered, false) == covered.end();
      // A rank that does without a weight (a bias added by one rank alone) may leave it out.
      if (is_read && value.type == graph::DataType::float32) CHECK(is_whole);
    }
  }

  std::string stored_spec(const std::string& name) const {
    for (const Json& entry : plan_["operators"])
      if (entry["name"] == name && !entry.contains("inputs")) return entry["outputs"].at(0);
    FAIL("plan.json does not say how " << name << " is stored");
    return {};
  }

  /// Row-major indices of the elements in the ranges.
  template <typename Visit>
  static void for_each_element(const Ints& shape, const std::vector<Interval>& ranges, Visit visit,
                               std::size_t dim = 0, std::int64_t index = 0) {
    if (dim == shape.size()) return visit(static_cast<std::size_t>(index));
    for (std::int64_t i = ranges[dim].begin; i < ranges[dim].end; ++i)
      for_each_element(shape, ranges, visit, dim + 1, index * shape[dim] + i);
  }

  /// No rank waits for another: taking turns, every collective's whole group comes to it. What
  /// each says of the others' shares is what they have.
  void check_collectives_meet() const {
    std::vector<std::vector<const onnx::NodeProto*>> left;
    for (const auto& shard : shards_) left.push_back(collectives_of(*shard));
    std::vector<std::size_t> next(left.size(), 0);
    const auto at = [&](std::int64_t rank) -> const onnx::NodeProto* {
      const auto r = static_cast<std::size_t>(rank);
      return next[r] < left[r].size() ? left[r][next[r]] : nullptr;
    };
    while (true) {
      bool any_left = false;
      bool any_met = false;
      for (std::size_t rank = 0; rank < left.size(); ++rank) {
        const onnx::NodeProto* node = at(static_cast<std::int64_t>(rank));
        if (node == nullptr) continue;
        any_left = true;
        const Ints group = ints(*node, "ranks");
        if (!std::ranges::all_of(group, [&](std::int64_t member) {
              const onnx::NodeProto* other = at(member);
              return other != nullptr && other->op_type() == node->op_type() &&
                     other->output(0) == node->output(0) && ints(*other, "ranks") == group;
            }))
          continue;
        check_sizes(group, at);
        for (const std::int64_t member : group) ++next[static_cast<std::size_t>(member)];
        any_met = true;
      }
      if (!any_left) return;
      REQUIRE(any_met);
    }
  }

  template <typename At>
  void check_sizes(const Ints& group, const At& at) const {
    CHECK(group.size() > 1);
    for (const std::int64_t member : group) {
      const onnx::NodeProto& node = *at(member);
      INFO(node.name() << " of rank " << member);
      const auto extents = [&](bool of_input, const char* dim) {
        Ints result;
        for (const std::int64_t each : group) {
          const onnx::NodeProto& other = *at(each);
          const TypeAndShape& tensor = shards_[static_cast<std::size_t>(each)]->value(
              of_input ? other.input(0) : other.output(0));
          result.push_back(tensor.shape.at(static_cast<std::size_t>(integer(node, dim))));
        }
        return result;
      };
      if (node.op_type() == "AllGather") CHECK(ints(node, "sizes") == extents(true, "dim"));
      if (node.op_type() == "ReduceScatter") CHECK(ints(node, "sizes") == extents(false, "dim"));
      if (node.op_type() == "AllToAll") {
        CHECK(ints(node, "split_sizes") == extents(false, "split_dim"));
        CHECK(ints(node, "concat_sizes") == extents(true, "concat_dim"));
      }
    }
  }

  /// The prediction in meta-info is what the nodes' own tensors add up to.
  void check_communicated_bytes() const {
    std::map<std::pair<std::string, Ints>, std::pair<std::int64_t, std::int64_t>> totals;
    static const std::map<std::string, std::string> kinds{{"AllReduce", "all-reduce"},
                                                          {"AllGather", "all-gather"},
                                                          {"ReduceScatter", "reduce-scatter"},
                                                          {"AllToAll", "all-to-all"}};
    std::set<std::pair<Ints, Ints>> groups;
    for (const auto& shard : shards_) {
      for (const onnx::NodeProto* node : collectives_of(*shard)) {
        auto& [count, bytes] = totals[{kinds.at(node->op_type()), ints(*node, "mesh_axes")}];
        ++count;
        bytes +=
            shard->value(node->op_type() == "AllGather" ? node->output(0) : node->input(0)).bytes();
        groups.emplace(ints(*node, "mesh_axes"), ints(*node, "ranks"));
      }
    }
    Json expected = Json::array();
    for (const auto& [key, total] : totals) {
      expected.push_back({{"kind", key.first},
                          {"mesh_axes", key.second},
                          {"count", total.first},
                          {"bytes", total.second}});
    }
    CHECK(meta_["profiles"][0]["collectives"] == expected);

    std::set<std::pair<Ints, Ints>> listed;
    for (const Json& entry : meta_["groups"])
      for (const Json& ranks : entry["ranks"])
        listed.emplace(entry["mesh_axes"].get<Ints>(), ranks.get<Ints>());
    CHECK(listed == groups);
  }

  Json meta_;
  Json plan_;
  Ints mesh_;
  std::vector<std::unique_ptr<Shard>> shards_;
};

}  // namespace autopar::stranger
