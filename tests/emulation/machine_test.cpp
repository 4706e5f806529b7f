#include <nvtx3/nvToolsExt.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "test_kernels.h"

namespace autopar::emulation {
namespace {

TEST_CASE("the environment says how many devices there are and how old the driver is") {
  int count = -1;
  setenv("AUTOPAR_EMULATED_GPUS", "0", 1);
  reset();
  CHECK(cudaGetDeviceCount(&count) == cudaErrorNoDevice);
  CHECK(count == 0);
  CHECK(cudaSetDevice(0) == cudaErrorNoDevice);
  setenv("AUTOPAR_EMULATED_GPUS", "2", 1);
  setenv("AUTOPAR_EMULATED_DRIVER", "12040", 1);
  reset();
  CHECK(cudaGetDeviceCount(&count) == cudaErrorInsufficientDriver);
  unsetenv("AUTOPAR_EMULATED_DRIVER");
  reset();
  CHECK(cudaGetDeviceCount(&count) == cudaSuccess);
  CHECK(count == 2);
  CHECK(cudaSetDevice(2) == cudaErrorInvalidDevice);
  unsetenv("AUTOPAR_EMULATED_GPUS");
  reset();
  int value = 0;
  CHECK(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, 3) == cudaSuccess);
  CHECK(value == 132);
  CHECK(cudaGetErrorName(cudaErrorNoDevice) == std::string("cudaErrorNoDevice"));
  CHECK(cudaGetErrorName(static_cast<cudaError_t>(12345)) ==
        std::string("unrecognized error code"));
  CHECK(cudaGetErrorString(cudaErrorMemoryAllocation) == std::string("out of memory"));
}

TEST_CASE("NVTX ranges are remembered") {
  reset();
  CHECK(nvtxRangePushA("outer") == 0);
  CHECK(nvtxRangePushA("inner") == 1);
  CHECK(nvtx_depth() == 2);
  CHECK(nvtxRangePop() == 1);
  CHECK(nvtxRangePop() == 0);
  CHECK(nvtxRangePop() < 0);
  CHECK(nvtx_ranges() == std::vector<std::string>{"outer", "inner"});
}

}  // namespace
}  // namespace autopar::emulation
