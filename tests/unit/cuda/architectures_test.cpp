#include "runtime/devices/cuda/architectures.h"

#include <catch2/catch.hpp>

namespace autopar::runtime::cuda {
namespace {

TEST_CASE("Machine code runs on its major version, and PTX on all that is newer") {
  const auto serves = [](const char* list) {
    std::string served;
    for (const int gpu : {75, 80, 86, 89, 90, 100, 103, 110, 120, 121})
      if (has_code_for(list, gpu)) served += std::to_string(gpu) + ' ';
    return served;
  };
  CHECK(serves("80-real") == "80 86 89 ");
  CHECK(serves("86-real") == "86 89 ");
  CHECK(serves("80-real,90-real") == "80 86 89 90 ");
  CHECK(serves("90") == "90 100 103 110 120 121 ");
  CHECK(serves("80,90") == "80 86 89 90 100 103 110 120 121 ");
  CHECK(serves("80-real,90-real,100-real,120") == "80 86 89 90 100 103 120 121 ");
  CHECK(serves("80-real,90-virtual") == "80 86 89 90 100 103 110 120 121 ");
  CHECK(serves("90a-real") == "90 ");
  CHECK(serves("100f-real") == "100 103 ");
  CHECK(serves("native") == "75 80 86 89 90 100 103 110 120 121 ");
}

TEST_CASE("What code is for is told with versions as NVIDIA writes them") {
  CHECK(served_capabilities("80") == "8.0 and newer");
  CHECK(served_capabilities("90,80-real") == "8.0, 9.0 and newer");
  CHECK(served_capabilities("80-real,90-real,100-real,120") == "8.0, 9.0, 10.0, 12.0 and newer");
  CHECK(served_capabilities("80-real,90-real") == "8.0, 9.0");
  CHECK(served_capabilities("90a") == "9.0");
}

}  // namespace
}  // namespace autopar::runtime::cuda
