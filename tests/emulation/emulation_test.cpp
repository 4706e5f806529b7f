#include <cuda_runtime.h>

#include <catch2/catch.hpp>
#include <vector>

namespace {

__global__ void reverse(const int* from, int* to, int count) {
  __shared__ int tile[256];
  const int i = static_cast<int>(threadIdx.x);
  if (i < count) tile[i] = from[i];
  __syncthreads();
  if (i < count) to[i] = tile[count - 1 - i];
}

}  // namespace

TEST_CASE("threads of a block see what others wrote before a barrier") {
  std::vector<int> in(256), out(256);
  for (int i = 0; i < 256; ++i) in[i] = i;
  int *from, *to;
  REQUIRE(cudaMalloc(&from, 1024) == cudaSuccess);
  REQUIRE(cudaMalloc(&to, 1024) == cudaSuccess);
  cudaLaunchConfig_t config{};
  config.gridDim = 1;
  config.blockDim = 256;
  REQUIRE(cudaMemcpy(from, in.data(), 1024, cudaMemcpyHostToDevice) == cudaSuccess);
  REQUIRE(cudaLaunchKernelEx(&config, reverse, from, to, 256) == cudaSuccess);
  REQUIRE(cudaMemcpy(out.data(), to, 1024, cudaMemcpyDeviceToHost) == cudaSuccess);
  for (int i = 0; i < 256; ++i) REQUIRE(out[i] == 255 - i);
}
