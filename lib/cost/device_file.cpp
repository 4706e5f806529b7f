#include "cost/device_file.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/error.h"
#include "base/read_file.h"
#include "base/whole_file.h"

namespace autopar::cost {
namespace {

using nlohmann::json;

/// One JSON object of a device file, read field by field. `path` is what stands before the name of
/// a field: "links[0]."
class FieldReader {
 public:
  FieldReader(const json& object, std::string file, std::string path = "")
      : object_(object), file_(std::move(file)), path_(std::move(path)) {
    if (object_.is_object()) return;
    if (path_.empty()) fail("device file '{}' must hold an object", file_);
    path_.pop_back();
    malformed("", "be an object");
  }

  const json& object() const { return object_; }
  const std::string& file() const { return file_; }
  bool has(const std::string& key) const { return object_.contains(key); }

  void allow_only(std::initializer_list<std::string_view> fields) const {
    for (const auto& [key, value] : object_.items()) {
      if (std::ranges::find(fields, key) == fields.end()) {
        fail("device file '{}': unknown field '{}'; it may be {}", file_, path_ + key,
             fmt::join(fields, ", "));
      }
    }
  }

  const json& field(const std::string& key) const {
    const auto found = object_.find(key);
    if (found == object_.end())
      fail("device file '{}': field '{}' is missing; add it", file_, path_ + key);
    return *found;
  }

  /// An object in the place: "links[0]".
  FieldReader inside(const json& value, const std::string& place) const {
    return {value, file_, path_ + place + "."};
  }
  FieldReader inside(const std::string& key) const { return inside(field(key), key); }

  std::string text(const std::string& key) const {
    const json& value = field(key);
    if (!value.is_string()) malformed(key, "be a text");
    return value.get<std::string>();
  }

  /// A time in seconds.
  double duration(const std::string& key) const {
    return number(key, 0, 1000, "be seconds, from 0 to 1000");
  }
  /// An amount a second.
  double rate(const std::string& key) const {
    return number(key, 1, 1e24, "be a number from 1 to 1e+24");
  }
  /// A part, from 0 to 1.
  double part(const std::string& key) const { return number(key, 0, 1, "be a number from 0 to 1"); }

  int count(const std::string& key) const {
    const json& value = field(key);
    constexpr int most_devices = sharding::DeviceMesh::max_devices;
    if (!value.is_number_integer() || value < 1 || value > most_devices)
      malformed(key, fmt::format("be a whole number from 1 to {}", most_devices));
    return value.get<int>();
  }

  bool flag(const std::string& key) const {
    const json& value = field(key);
    if (!value.is_boolean()) malformed(key, "be true or false");
    return value.get<bool>();
  }

  [[noreturn]] void malformed(const std::string& key, std::string_view must) const {
    fail("device file '{}': field '{}' must {}", file_, path_ + key, must);
  }

 private:
  double number(const std::string& key, double least, double most, const char* must) const {
    const json& value = field(key);
    const double number = value.is_number() ? value.get<double>() : std::nan("");
    if (!(number >= least && number <= most)) malformed(key, must);
    return number;
  }

  const json& object_;
  std::string file_;
  std::string path_;
};

json parse(const std::filesystem::path& file) {
  const std::string text = read_file(file, "device file '{}' cannot be read: {}");
  json document = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (document.is_discarded()) fail("device file '{}' is not JSON; correct it", file.string());
  return document;
}

/// A number, or a list of rates by size, whose name `size` is. `more` is what may not take less
/// time for being larger.
SizedRate read_rate(const FieldReader& object, const std::string& key, const std::string& size,
                    std::string_view more) {
  const json& value = object.field(key);
  if (!value.is_array()) return object.rate(key);
  std::vector<SizedRate::Point> points;
  for (std::size_t i = 0; i < value.size(); ++i) {
    const FieldReader point = object.inside(value[i], fmt::format("{}[{}]", key, i));
    point.allow_only({size, "rate"});
    points.push_back({point.rate(size), point.rate("rate")});
    if (i > 0 && points[i].size <= points[i - 1].size)
      point.malformed(size, "be more than the one before: sizes rise");
  }
  if (points.empty()) object.malformed(key, "be a rate, or a list of at least one");
  SizedRate rate(std::move(points));
  if (!rate.takes_longer_for_more())
    object.malformed(key, fmt::format("have rates by which {} no less time", more));
  return rate;
}

std::map<graph::DataType, SizedRate> read_flops(const FieldReader& device) {
  const FieldReader rates = device.inside("flops_per_second");
  std::map<graph::DataType, SizedRate> flops;
  for (const auto& [name, unread] : rates.object().items()) {
    graph::DataType type;
    try {
      type = graph::parse_data_type(name);
    } catch (const Error& error) {
      fail("device file '{}', field 'flops_per_second': {}", device.file(), error.what());
    }
    flops.emplace(type, read_rate(rates, name, "operations", "a larger product takes"));
  }
  if (!flops.contains(graph::DataType::float32))
    device.malformed("flops_per_second", "have float32's rate");
  return flops;
}

LinkSpeed read_speed(const FieldReader& link) {
  return {link.duration("latency_seconds"), link.rate("bytes_per_second")};
}

Link read_link(const FieldReader& link) {
  link.allow_only({"latency_seconds", "bytes_per_second", "all-reduce", "all-gather",
                   "reduce-scatter", "all-to-all"});
  const LinkSpeed speed = read_speed(link);
  Link read{speed.latency_seconds, speed.bytes_per_second};
  for (const sharding::StepKind kind : sharding::collectives) {
    const std::string name(sharding::name_of(kind));
    if (!link.has(name)) continue;
    const FieldReader of_kind = link.inside(name);
    of_kind.allow_only({"latency_seconds", "bytes_per_second"});
    read.by_kind[kind] = read_speed(of_kind);
  }
  return read;
}

std::vector<Link> read_links(const FieldReader& device) {
  const json& list = device.field("links");
  if (!list.is_array() || list.empty()) device.malformed("links", "be a list of at least one link");
  std::vector<Link> links;
  for (const json& link : list)
    links.push_back(read_link(device.inside(link, fmt::format("links[{}]", links.size()))));
  return links;
}

json rate_json(const SizedRate& rate, const char* size) {
  if (rate.is_constant()) return rate.highest();
  json list = json::array();
  for (const SizedRate::Point& point : rate.points()) {
    list.push_back({{size, point.size}, {"rate", point.rate}});
  }
  return list;
}

json link_json(const Link& link) {
  const auto speed = [](const LinkSpeed& one) {
    return json{{"latency_seconds", one.latency_seconds},
                {"bytes_per_second", one.bytes_per_second}};
  };
  json written = speed({link.latency_seconds, link.bytes_per_second});
  for (const auto& [kind, of_kind] : link.by_kind) {
    written[std::string(sharding::name_of(kind))] = speed(of_kind);
  }
  return written;
}

}  // namespace

DeviceModel load_device_file(const std::filesystem::path& path) {
  const json document = parse(path);
  const FieldReader fields(document, path.string());
  fields.allow_only({"name", "source", "flops_per_second", "memory_bytes_per_second",
                     "weight_bytes_per_second", "overlap", "launch_seconds", "element_seconds",
                     "fuses", "runs_on", "memory_bytes", "links", "gpus_per_node", "nodes"});
  DeviceModel device;
  device.name = fields.text("name");
  device.source = fields.text("source");
  device.flops_per_second = read_flops(fields);
  device.memory_bytes_per_second =
      read_rate(fields, "memory_bytes_per_second", "bytes", "more bytes take");
  if (fields.has("weight_bytes_per_second"))
    device.weight_bytes_per_second = fields.rate("weight_bytes_per_second");
  if (fields.has("overlap")) device.overlap = fields.part("overlap");
  device.launch_seconds = fields.duration("launch_seconds");
  if (fields.has("element_seconds")) {
    const FieldReader seconds = fields.inside("element_seconds");
    for (const auto& [op_type, unread] : seconds.object().items())
      device.element_seconds[op_type] = seconds.duration(op_type);
  }
  if (fields.has("fuses")) device.is_fusing = fields.flag("fuses");
  if (fields.has("runs_on")) device.runs_on = fields.text("runs_on");
  if (!device.runs_on.empty() && device.runs_on != "cpu" && device.runs_on != "cuda")
    fields.malformed("runs_on", "be cpu or cuda");
  const double memory = fields.rate("memory_bytes");
  if (memory > 1e18) fields.malformed("memory_bytes", "lie between 1 and 1e18");
  device.memory_bytes = static_cast<std::int64_t>(memory);
  device.links = read_links(fields);
  if (fields.has("gpus_per_node")) device.gpus_per_node = fields.count("gpus_per_node");
  if (device.gpus_per_node > 0 && device.links.size() != 2) {
    fields.malformed("links", "have two links, within a node and between nodes");
  }
  if (fields.has("nodes")) device.nodes = fields.count("nodes");
  if (device.nodes > 0 && device.gpus_per_node == 0) {
    fields.malformed("nodes", "stand beside gpus_per_node, or be left out");
  }
  return device;
}

std::string device_json(const DeviceModel& device) {
  nlohmann::ordered_json written{{"name", device.name}, {"source", device.source}};
  for (const auto& [type, rate] : device.flops_per_second) {
    written["flops_per_second"][std::string(graph::name_of(type))] = rate_json(rate, "operations");
  }
  written["memory_bytes_per_second"] = rate_json(device.memory_bytes_per_second, "bytes");
  if (device.weight_bytes_per_second > 0)
    written["weight_bytes_per_second"] = device.weight_bytes_per_second;
  if (device.overlap < 1) written["overlap"] = device.overlap;
  written["launch_seconds"] = device.launch_seconds;
  if (!device.element_seconds.empty()) written["element_seconds"] = device.element_seconds;
  if (device.is_fusing) written["fuses"] = true;
  if (!device.runs_on.empty()) written["runs_on"] = device.runs_on;
  written["memory_bytes"] = device.memory_bytes;
  json links = json::array();
  for (const Link& link : device.links) links.push_back(link_json(link));
  written["links"] = links;
  if (device.gpus_per_node > 0) written["gpus_per_node"] = device.gpus_per_node;
  if (device.nodes > 0) written["nodes"] = device.nodes;
  return written.dump(2) + "\n";
}

void check_device_file(const std::filesystem::path& file, bool force) {
  std::error_code error;
  if (std::filesystem::is_directory(file, error))
    fail("--out {} is a folder; give a file's name", file.string());
  if (!force && std::filesystem::exists(file, error))
    fail("--out {} exists; give --force to replace it, or another name", file.string());
  try {
    const WholeFile can_be_made(file);
  } catch (const Error& cause) {
    fail("--out: {}", cause.what());
  }
}

void save_device_file(const std::filesystem::path& file, const DeviceModel& device) {
  write_file(file, device_json(device));
}

void save_new_device_file(const std::filesystem::path& file, const DeviceModel& device) {
  WholeFile whole(file);
  whole.write(device_json(device));
  whole.publish_new();
}

}  // namespace autopar::cost
