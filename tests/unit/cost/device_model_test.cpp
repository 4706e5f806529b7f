#include "cost/device_model.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "cost/device_file.h"

using autopar::Error;
using autopar::TemporaryFolder;
using autopar::cost::DeviceModel;
using autopar::cost::load_device_model;
using autopar::graph::DataType;

namespace {

/// A file in the temporary folder, removed at the end.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& text) { std::ofstream(path()) << text; }
  std::string path() const { return folder_ / "device.json"; }

 private:
  TemporaryFolder folder_;
};

const std::string good = R"({
  "name": "box", "source": "a test",
  "flops_per_second": {"float32": 1e12, "float16": 4e12},
  "memory_bytes_per_second": 1e11, "launch_seconds": 0, "memory_bytes": 8000000000,
  "links": [{"latency_seconds": 1e-6, "bytes_per_second": 1e10},
            {"latency_seconds": 2e-5, "bytes_per_second": 1e9}]
})";

std::string replaced(const std::string& what, const std::string& with) {
  std::string text = good;
  return text.replace(text.find(what), what.size(), with);
}

}  // namespace

TEST_CASE("every preset is complete and names its source") {
  const auto names = autopar::cost::device_preset_names();
  CHECK(names == std::vector<std::string>{"h200", "h100", "a100", "v100", "l4", "h100-cluster",
                                          "l4-ethernet", "cpu"});
  for (const std::string& name : names) {
    CAPTURE(name);
    const DeviceModel device = load_device_model(name);
    CHECK(device.name == name);
    CHECK_FALSE(device.source.empty());
    CHECK(device.flops(DataType::float32).highest() > 0);
    CHECK(device.flops(DataType::float16).highest() >= device.flops(DataType::float32).highest());
    CHECK(device.memory_bytes_per_second.highest() > 0);
    CHECK(device.memory_bytes > 0);
    CHECK(device.launch_seconds >= 0);
    REQUIRE_FALSE(device.links.empty());
    CHECK(device.links[0].bytes_per_second > 0);
    CHECK(device.links[0].bytes_per_second < device.memory_bytes_per_second.highest());
    CHECK((device.gpus_per_node == 0 || device.links.size() == 2));
  }
}

TEST_CASE("a device that is neither preset nor file lists the presets") {
  CHECK_THROWS_WITH(load_device_model("h300"),
                    Catch::Contains("h300") && Catch::Contains("h200") && Catch::Contains("cpu"));
  CHECK_THROWS_AS(load_device_model(""), Error);
  CHECK_THROWS_AS(load_device_model(std::filesystem::temp_directory_path().string()), Error);
}

TEST_CASE("a device file has the fields of a preset") {
  const TemporaryFile file(good);
  const DeviceModel device = load_device_model(file.path());
  CHECK(device.name == "box");
  CHECK(device.source == "a test");
  CHECK(device.flops(DataType::float16) == autopar::cost::SizedRate(4e12));
  CHECK(device.flops(DataType::bfloat16).highest() == 1e12);  // none of its own, so float32's
  CHECK(device.memory_bytes_per_second.highest() == 1e11);
  CHECK(device.memory_bytes == 8'000'000'000);
  CHECK(device.link(0).latency_seconds == 1e-6);
  CHECK(device.link(1).bytes_per_second == 1e9);
  CHECK(device.link(5).bytes_per_second == 1e9);  // the last serves all further axes
  CHECK(device.gpus_per_node == 0);
}

TEST_CASE("a device file of two levels has nodes") {
  const TemporaryFile file(
      replaced("\"launch_seconds\"", "\"gpus_per_node\": 8, \"launch_seconds\""));
  const DeviceModel device = load_device_model(file.path());
  CHECK(device.gpus_per_node == 8);
  CHECK(device.links.size() == 2);
}

TEST_CASE("a malformed device file is an error of one line that names file and field") {
  const auto refused = [](const std::string& text, const std::string& field) {
    const TemporaryFile file(text);
    CAPTURE(text);
    try {
      load_device_model(file.path());
      FAIL("accepted");
    } catch (const Error& error) {
      const std::string message = error.what();
      CHECK_THAT(message, Catch::Contains(file.path()) && Catch::Contains(field));
      CHECK(message.find('\n') == std::string::npos);
    }
  };
  refused("", "not JSON");
  refused(good.substr(0, good.size() / 2), "not JSON");
  refused("[]", "object");
  refused(replaced("\"launch_seconds\": 0, ", ""), "launch_seconds");
  refused(replaced("\"launch_seconds\": 0", "\"launch_seconds\": -1"), "launch_seconds");
  refused(replaced("\"launch_seconds\": 0", "\"launch_seconds\": \"0\""), "launch_seconds");
  refused(replaced("\"launch_seconds\"", "\"lunch_seconds\""), "lunch_seconds");
  refused(replaced("1e11", "0"), "memory_bytes_per_second");
  refused(replaced("8000000000", "1e30"), "memory_bytes");
  refused(replaced("8000000000", "true"), "memory_bytes");
  refused(replaced("\"box\"", "7"), "name");
  refused(replaced("\"float32\"", "\"float33\""), "float33");
  refused(replaced("\"float32\": 1e12, ", ""), "float32");
  refused(replaced("\"float32\": 1e12", "\"float32\": 0"), "flops_per_second.float32");
  refused(replaced("{\"float32\": 1e12, \"float16\": 4e12}", "1e12"), "flops_per_second");
  refused(replaced("\"bytes_per_second\": 1e10", "\"bytes_per_second\": 0"),
          "links[0].bytes_per_second");
  refused(replaced("\"latency_seconds\": 2e-5, ", ""), "links[1].latency_seconds");
  refused(good.substr(0, good.find("\"links\"")) + "\"links\": []}", "links");
  for (const char* rate : {"1e-300", "-1", "1e30", "1e999", "null", "NaN"}) {
    refused(replaced("1e11", rate), std::string(rate).find_first_of("9N") == std::string::npos
                                        ? "memory_bytes_per_second"
                                        : "not JSON");
    refused(replaced("\"float16\": 4e12",
                     "\"float16\": [{\"operations\": 1e3, \"rate\": " + std::string(rate) + "}]"),
            std::string(rate).find_first_of("9N") == std::string::npos
                ? "flops_per_second.float16[0].rate"
                : "not JSON");
  }
  refused(replaced("\"launch_seconds\": 0", "\"launch_seconds\": 1e300"), "launch_seconds");
  const auto with_field = [](const std::string& field) {
    return replaced("\"launch_seconds\"", field + ", \"launch_seconds\"");
  };
  const auto with_memory = [](const std::string& rates) { return replaced("1e11", rates); };
  refused(with_memory("[]"), "at least one");
  refused(with_memory("[7]"), "memory_bytes_per_second[0]");
  refused(with_memory(R"([{"bytes": 1e3}])"), "memory_bytes_per_second[0].rate");
  refused(with_memory(R"([{"size": 1e3, "rate": 1e9}])"), "memory_bytes_per_second[0].size");
  refused(with_memory(R"([{"bytes": 1e3, "rate": 1e9}, {"bytes": 1e3, "rate": 1e9}])"),
          "memory_bytes_per_second[1].bytes");
  refused(with_memory(R"([{"bytes": 1e3, "rate": 1e9}, {"bytes": 1e2, "rate": 1e9}])"), "rise");
  refused(with_memory(R"([{"bytes": 1e3, "rate": 1e9}, {"bytes": 1e4, "rate": 1e12}])"),
          "no less time");
  refused(
      replaced("4e12", R"([{"operations": 1e3, "rate": 2e8}, {"operations": 1e4, "rate": 1e10}])"),
      "flops_per_second.float16");
  refused(with_field("\"element_seconds\": 7"), "element_seconds");
  refused(with_field("\"element_seconds\": {\"Tanh\": -1}"), "element_seconds.Tanh");
  refused(with_field("\"fuses\": 1"), "fuses");
  refused(with_field("\"runs_on\": \"tpu\""), "runs_on");
  refused(with_field("\"nodes\": 2"), "gpus_per_node");
  refused(with_field("\"gpus_per_node\": 8, \"nodes\": 0"), "nodes");
  refused(replaced("\"bytes_per_second\": 1e10",
                   "\"bytes_per_second\": 1e10, \"all-reduce\": {\"latency_seconds\": 1}"),
          "links[0].all-reduce.bytes_per_second");
  for (const char* number : {"0", "-8", "2.5", "\"8\"", "null", "4294967304"}) {
    refused(replaced("\"launch_seconds\"",
                     "\"gpus_per_node\": " + std::string(number) + ", \"launch_seconds\""),
            "gpus_per_node");
  }
  refused(good.substr(0, good.find("\"links\"")) +
              "\"gpus_per_node\": 8, \"links\": [{\"latency_seconds\": 1e-6, "
              "\"bytes_per_second\": 1e10}]}",
          "two links");
}

TEST_CASE("a device file that is written is read as the same model") {
  const TemporaryFile file("");
  DeviceModel device = load_device_model("h100-cluster");
  device.name = "box \"1\"";
  device.flops_per_second[DataType::float32] =
      autopar::cost::SizedRate({{1e5, 1e9 / 3}, {1e9, 1e11 / 7}});
  device.memory_bytes_per_second = autopar::cost::SizedRate({{1e5, 1e11}, {1e8, 1e10 / 3}});
  device.element_seconds = {{"Tanh", 1e-9 / 3}};
  device.is_fusing = true;
  device.runs_on = "cuda";
  device.links[1].by_kind[autopar::sharding::StepKind::all_reduce] = {1e-6 / 7, 1e9 / 3};
  for (const DeviceModel& written : {load_device_model("cpu"), device}) {
    autopar::cost::save_device_file(file.path(), written);
    const DeviceModel read = load_device_model(file.path());
    CHECK(read.name == written.name);
    CHECK(read.source == written.source);
    CHECK(read.flops_per_second == written.flops_per_second);
    CHECK(read.memory_bytes_per_second == written.memory_bytes_per_second);
    CHECK(read.launch_seconds == written.launch_seconds);
    CHECK(read.element_seconds == written.element_seconds);
    CHECK(read.is_fusing == written.is_fusing);
    CHECK(read.runs_on == written.runs_on);
    CHECK(read.memory_bytes == written.memory_bytes);
    CHECK(read.links == written.links);
    CHECK(read.gpus_per_node == written.gpus_per_node);
    CHECK(read.nodes == written.nodes);
  }
}

TEST_CASE("a device file is written whole, where it may be, or not at all") {
  const TemporaryFolder temporary;
  const auto& folder = temporary.path();
  const auto file = folder / "device.json";
  using autopar::cost::check_device_file;
  using autopar::cost::save_device_file;
  check_device_file(file, false);
  CHECK(std::filesystem::is_empty(folder));
  save_device_file(file, load_device_model("cpu"));
  CHECK_THROWS_WITH(check_device_file(file, false), Catch::Contains("--force"));
  CHECK_NOTHROW(check_device_file(file, true));
  CHECK_THROWS_WITH(check_device_file(folder, true), Catch::Contains("folder"));
  CHECK_THROWS_WITH(check_device_file(folder / "none" / "device.json", false),
                    Catch::Contains("cannot be written"));
  CHECK_THROWS_WITH(save_device_file(folder / "none" / "device.json", load_device_model("cpu")),
                    Catch::Contains("cannot be written"));
  CHECK(std::distance(std::filesystem::directory_iterator(folder), {}) == 1);
}

TEST_CASE("a cluster has so many devices and no more") {
  const DeviceModel cluster = load_device_model("h100-cluster");
  CHECK(cluster.nodes * cluster.gpus_per_node == 1024);
  CHECK_NOTHROW(cluster.check_has(1024));
  CHECK_THROWS_WITH(cluster.check_has(1025),
                    Catch::Contains("1024 devices") && Catch::Contains("1025"));
  CHECK_NOTHROW(load_device_model("h100").check_has(1 << 20));
  CHECK_NOTHROW(load_device_model("l4-ethernet").check_has(1 << 20));
}
