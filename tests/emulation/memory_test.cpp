#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "test_kernels.h"

namespace autopar::emulation {
namespace {

using Catch::Contains;

// ThreadSanitizer loses its fibres in a child process.
#ifndef __SANITIZE_THREAD__
/// What a child process that runs `body` writes to standard error if it crashes; empty if not.
template <typename Body>
std::string crash_of(Body body) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    dup2(open("/dev/null", O_WRONLY), STDOUT_FILENO);
    body();
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  char part[256];
  for (ssize_t bytes; (bytes = read(ends[0], part, sizeof part)) > 0;) text.append(part, bytes);
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  const bool crashed = !WIFEXITED(status) || WEXITSTATUS(status) != 0;
  return crashed ? text + "(crashed)" : "";
}

TEST_CASE("the host cannot touch device memory, nor anyone what is behind it or was freed") {
  reset();
  auto array = std::make_unique<DeviceArray<int>>(std::vector<int>(64, 5));
  volatile int* data = array->get();
  const auto host_crash = Contains("memory of emulated device 0");
  CHECK_THAT(crash_of([&] { *data; }), host_crash);
  CHECK_THAT(crash_of([&] { *data = 1; }), host_crash);
  const auto write_at = [](int* to) {
    launch({}, set, to, 1);
    cudaDeviceSynchronize();
  };
  const auto kernel_crash = Contains("emulated kernel: block (0,0,0), thread (0,0,0) touched");
  CHECK(crash_of([&] { write_at(array->get() + 63); }).empty());
  CHECK_THAT(crash_of([&] { write_at(array->get() + 64); }), kernel_crash);
  {
    const DeviceAccess access(0);
    CHECK(data[63] == 5);
  }
  CHECK_THAT(crash_of([&] { *data; }), host_crash);
  CHECK_THAT(crash_of([&] {
               launch({}, set, array->get(), 1);
               cudaLaunchHostFunc(
                   nullptr, [](void* at) { *static_cast<int*>(at) = 1; }, array->get());
               cudaDeviceSynchronize();
             }),
             host_crash);
  int* freed = array->get();
  array.reset();
  CHECK_THAT(crash_of([&] { write_at(freed); }), kernel_crash);
}
#endif

TEST_CASE("fresh memory is aligned to 256 bytes and full of NaNs") {
  reset();
  for (const std::size_t size : {1, 63, 64, 1000, 5000}) {
    DeviceArray<float> array(size);
    CHECK(reinterpret_cast<std::uintptr_t>(array.get()) % 256 == 0);
    const auto values = array.values();
    CHECK(std::all_of(values.begin(), values.end(), [](float x) { return std::isnan(x); }));
  }
}

TEST_CASE("memory runs out, and what is freed is there again") {
  setenv("AUTOPAR_EMULATED_MEMORY", "1048576", 1);
  reset();
  void *half = nullptr, *more = nullptr;
  std::size_t free = 0, total = 0;
  CHECK(cudaMalloc(&half, 600000) == cudaSuccess);
  CHECK(cudaMalloc(&more, 600000) == cudaErrorMemoryAllocation);
  CHECK(more == nullptr);
  REQUIRE(cudaMemGetInfo(&free, &total) == cudaSuccess);
  CHECK(total == 1048576);
  CHECK(free == 1048576 - allocated_bytes(0));
  CHECK(cudaFree(half) == cudaSuccess);
  CHECK(cudaMalloc(&more, 600000) == cudaSuccess);
  CHECK(cudaFree(more) == cudaSuccess);
  CHECK(allocated_bytes(0) == 0);
  CHECK(peak_allocated_bytes(0) >= 600000);
  CHECK(cudaFree(more) == cudaErrorInvalidValue);
  fail_allocations_above(1000);
  CHECK(cudaMalloc(&more, 1001) == cudaErrorMemoryAllocation);
  CHECK(cudaMalloc(&more, 1000) == cudaSuccess);
  CHECK(cudaFree(more) == cudaSuccess);
  unsetenv("AUTOPAR_EMULATED_MEMORY");
  reset();
}

TEST_CASE("copies go where their kind says, within allocations") {
  reset();
  std::vector<int> host{1, 2, 3, 4, 5, 6};
  DeviceArray<int> a(host), b(6);
  CHECK(cudaMemcpy(a.get(), host.data(), 24, cudaMemcpyDeviceToHost) == cudaErrorInvalidValue);
  CHECK(cudaMemcpy(a.get(), host.data(), 28, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
  CHECK(cudaMemcpy(b.get(), a.get(), 24, cudaMemcpyDeviceToDevice) == cudaSuccess);
  CHECK(b.values() == host);
  // The last two columns of two rows of three, to the first two.
  CHECK(cudaMemcpy2DAsync(b.get(), 12, a.get() + 1, 12, 8, 2, cudaMemcpyDefault) == cudaSuccess);
  CHECK(b.values() == std::vector<int>{2, 3, 3, 5, 6, 6});
  CHECK(cudaMemset(b.get() + 1, 0, 8) == cudaSuccess);
  CHECK(b.values() == std::vector<int>{2, 0, 0, 5, 6, 6});
}

TEST_CASE("a copy reads pageable memory at once and pinned memory when its turn comes") {
  reset();
  DeviceArray<int> device(2);
  std::vector<int> pageable{1};
  PinnedArray<int> pinned(1), back(1);
  *pinned.data = 1;
  Stream stream;
  constexpr auto to_device = cudaMemcpyHostToDevice;
  REQUIRE(cudaMemcpyAsync(device.get(), pageable.data(), 4, to_device, stream.handle) ==
          cudaSuccess);
  REQUIRE(cudaMemcpyAsync(device.get() + 1, pinned.data, 4, to_device, stream.handle) ==
          cudaSuccess);
  pageable[0] = *pinned.data = 2;
  *back.data = 77;
  REQUIRE(cudaMemcpyAsync(back.data, device.get(), 4, cudaMemcpyDeviceToHost, stream.handle) ==
          cudaSuccess);
  CHECK(*back.data == 77);
  REQUIRE(cudaStreamSynchronize(stream.handle) == cudaSuccess);
  CHECK(*back.data == 1);
  CHECK(device.values() == std::vector<int>{1, 2});
}

TEST_CASE("a copy to pageable memory is there when the call returns") {
  reset();
  DeviceArray<int> device(std::vector<int>{3});
  int pageable = 0;
  REQUIRE(cudaMemcpyAsync(&pageable, device.get(), 4, cudaMemcpyDeviceToHost) == cudaSuccess);
  CHECK(pageable == 3);
}

TEST_CASE("memory is freed when what uses it is done") {
  reset();
  int* value = nullptr;
  Stream stream;
  REQUIRE(cudaMalloc(&value, 4) == cudaSuccess);
  launch({1, 1, 0, stream.handle}, set, value, 1);
  CHECK(counters().kernels == 0);
  CHECK(cudaFree(value) == cudaSuccess);
  CHECK(counters().kernels == 1);
  REQUIRE(cudaMallocAsync(&value, 4, stream.handle) == cudaSuccess);
  launch({1, 1, 0, stream.handle}, set, value, 1);
  CHECK(cudaFreeAsync(value, stream.handle) == cudaSuccess);
  CHECK(allocated_bytes(0) == 256);
  CHECK(cudaStreamSynchronize(stream.handle) == cudaSuccess);
  CHECK(allocated_bytes(0) == 0);
}

TEST_CASE("pointers tell what they are") {
  reset();
  DeviceArray<int> device(1);
  PinnedArray<int> pinned(1);
  int pageable = 0;
  cudaPointerAttributes attributes{};
  REQUIRE(cudaPointerGetAttributes(&attributes, device.get()) == cudaSuccess);
  CHECK(attributes.type == cudaMemoryTypeDevice);
  REQUIRE(cudaPointerGetAttributes(&attributes, pinned.data) == cudaSuccess);
  CHECK(attributes.type == cudaMemoryTypeHost);
  REQUIRE(cudaPointerGetAttributes(&attributes, &pageable) == cudaSuccess);
  CHECK(attributes.type == cudaMemoryTypeUnregistered);
  REQUIRE(cudaHostRegister(&pageable, 4, cudaHostRegisterDefault) == cudaSuccess);
  CHECK(cudaHostRegister(&pageable, 4, cudaHostRegisterDefault) ==
        cudaErrorHostMemoryAlreadyRegistered);
  REQUIRE(cudaPointerGetAttributes(&attributes, &pageable) == cudaSuccess);
  CHECK(attributes.type == cudaMemoryTypeHost);
  CHECK(cudaHostUnregister(&pageable) == cudaSuccess);
  CHECK(cudaHostUnregister(&pageable) == cudaErrorHostMemoryNotRegistered);
}

// ---- Streams and events -------------------------------------------------------------------------

}  // namespace
}  // namespace autopar::emulation
