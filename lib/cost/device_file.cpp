#include "cost/device_file.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string_view>

#include "graph/error.h"

namespace autopar::cost {
namespace {

using nlohmann::json;

/// One JSON object of a device file, read field by field.
class FieldReader {
 public:
  FieldReader(const json& object, std::string file, std::string path)
      : object_(object), file_(std::move(file)), path_(std::move(path)) {
    if (object_.is_object()) return;
    if (path_.empty()) fail("device file '{}' must hold an object", file_);
    path_.pop_back();
    malformed("", "be an object");
  }

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
    if (found == object_.end()) {
      fail("device file '{}': field '{}' is missing; add it", file_, path_ + key);
    }
    return *found;
  }

  std::string text(const std::string& key) const {
    const json& value = field(key);
    if (!value.is_string()) malformed(key, "be a text");
    return value.get<std::string>();
  }

  /// A number that is not negative.
  double amount(const std::string& key) const {
    const json& value = field(key);
    const double number = value.is_number() ? value.get<double>() : -1;
    if (!(number >= 0) || !std::isfinite(number)) malformed(key, "be a number, 0 or more");
    return number;
  }

  double rate(const std::string& key) const {
    const double number = amount(key);
    if (number == 0) malformed(key, "be a number above 0");
    return number;
  }

  [[noreturn]] void malformed(const std::string& key, std::string_view must) const {
    fail("device file '{}': field '{}' must {}", file_, path_ + key, must);
  }

 private:
  const json& object_;
  std::string file_;
  std::string path_;
};

json parse(const std::filesystem::path& file) {
  std::ifstream stream(file);
  if (!stream) fail("device file '{}' cannot be read", file.string());
  json document = json::parse(stream, nullptr, /*allow_exceptions=*/false);
  if (document.is_discarded()) fail("device file '{}' is not JSON; correct it", file.string());
  return document;
}

std::map<graph::DataType, double> read_flops(const FieldReader& device, const std::string& file) {
  const json& object = device.field("flops_per_second");
  const FieldReader rates(object, file, "flops_per_second.");
  std::map<graph::DataType, double> flops;
  for (const auto& [name, rate] : object.items()) {
    try {
      flops[graph::parse_data_type(name)] = rates.rate(name);
    } catch (const Error& error) {
      fail("device file '{}', field 'flops_per_second': {}", file, error.what());
    }
  }
  if (!flops.contains(graph::DataType::float32)) {
    device.malformed("flops_per_second", "have float32's rate");
  }
  return flops;
}

std::vector<Link> read_links(const FieldReader& device, const std::string& file) {
  const json& list = device.field("links");
  if (!list.is_array() || list.empty()) device.malformed("links", "be a list of at least one link");
  std::vector<Link> links;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const FieldReader link(list[i], file, "links[" + std::to_string(i) + "].");
    link.allow_only({"latency_seconds", "bytes_per_second"});
    links.push_back({link.amount("latency_seconds"), link.rate("bytes_per_second")});
  }
  return links;
}

int read_gpus_per_node(const FieldReader& device) {
  const json& value = device.field("gpus_per_node");
  constexpr int most = 1 << 20;
  if (!value.is_number_integer() || value < 1 || value > most) {
    device.malformed("gpus_per_node", "be a whole number of at least 1");
  }
  return value.get<int>();
}

}  // namespace

DeviceModel load_device_file(const std::filesystem::path& path) {
  const std::string file = path.string();
  const json document = parse(path);
  const FieldReader fields(document, file, "");
  fields.allow_only({"name", "source", "flops_per_second", "memory_bytes_per_second",
                     "launch_seconds", "memory_bytes", "links", "gpus_per_node"});
  DeviceModel device;
  device.name = fields.text("name");
  device.source = fields.text("source");
  device.flops_per_second = read_flops(fields, file);
  device.memory_bytes_per_second = fields.rate("memory_bytes_per_second");
  device.launch_seconds = fields.amount("launch_seconds");
  const double memory = fields.rate("memory_bytes");
  if (memory < 1 || memory > 1e18) fields.malformed("memory_bytes", "lie between 1 and 1e18");
  device.memory_bytes = static_cast<std::int64_t>(memory);
  device.links = read_links(fields, file);
  if (document.contains("gpus_per_node")) device.gpus_per_node = read_gpus_per_node(fields);
  if (device.gpus_per_node > 0 && device.links.size() != 2) {
    fields.malformed("links", "have two links, within a node and between nodes");
  }
  return device;
}

}  // namespace autopar::cost
