#include "base/gpu_names.h"

#include <catch2/catch.hpp>
#include <fstream>

#include "base/temporary_folder.h"

using namespace autopar;

TEST_CASE("GPUs are those that the driver tells of") {
  const TemporaryFolder root;
  CHECK(gpu_names(root.path()).empty());
  const auto gpu = root / "proc/driver/nvidia/gpus/0000:19:00.0";
  std::filesystem::create_directories(gpu);
  std::ofstream(gpu / "information") << "Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 18\n";
  CHECK(gpu_names(root.path()) == std::vector<std::string>{"NVIDIA H100 80GB HBM3"});
}

TEST_CASE("a preset's GPU is a word of its name") {
  CHECK(is_word_of("h100", "NVIDIA H100 80GB HBM3"));
  CHECK(is_word_of("a100", "NVIDIA A100-SXM4-80GB"));
  CHECK(is_word_of("l4", "NVIDIA L4"));
  CHECK_FALSE(is_word_of("l4", "NVIDIA L40S"));
  CHECK_FALSE(is_word_of("h200", "NVIDIA H100 80GB HBM3"));
  CHECK_FALSE(is_word_of("h200", ""));
}
