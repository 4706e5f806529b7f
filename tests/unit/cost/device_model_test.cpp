#include "cost/device_model.h"

#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "graph/error.h"

using autopar::Error;
using autopar::cost::DeviceModel;
using autopar::cost::load_device_model;
using autopar::graph::DataType;

namespace {

/// A file in the temporary folder, removed at the end.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& text)
      : path_(std::filesystem::temp_directory_path() /
              ("autopar-device-" + std::to_string(::getpid()) + ".json")) {
    std::ofstream(path_) << text;
  }
  ~TemporaryFile() { std::filesystem::remove(path_); }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
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
  CHECK(names == std::vector<std::string>{"h200", "h100", "a100", "v100", "l4", "cpu"});
  for (const std::string& name : names) {
    CAPTURE(name);
    const DeviceModel device = load_device_model(name);
    CHECK(device.name == name);
    CHECK_FALSE(device.source.empty());
    CHECK(device.flops(DataType::float32) > 0);
    CHECK(device.flops(DataType::float16) >= device.flops(DataType::float32));
    CHECK(device.memory_bytes_per_second > 0);
    CHECK(device.memory_bytes > 0);
    CHECK(device.launch_seconds >= 0);
    REQUIRE_FALSE(device.links.empty());
    CHECK(device.links[0].bytes_per_second > 0);
    CHECK(device.links[0].bytes_per_second < device.memory_bytes_per_second);
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
  CHECK(device.flops(DataType::float16) == 4e12);
  CHECK(device.flops(DataType::bfloat16) == 1e12);  // none of its own, so float32's
  CHECK(device.memory_bytes_per_second == 1e11);
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
