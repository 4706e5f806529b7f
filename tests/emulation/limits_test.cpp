// What a device refuses, and how it is told: a line that names the kernel and the limit.

#include <cstdlib>

#include "test_kernels.h"

namespace autopar::emulation {
namespace {

using Catch::Contains;

constexpr int bound = 64;
__global__ void __launch_bounds__(bound) bounded() {}
template <typename T>
__global__ void __launch_bounds__(2 * bound, 1) bounded_template(T) {}
template <int threads>
__global__ void __launch_bounds__(threads) bounded_by_template() {}

/// Checks that the launch is refused, and what is told of it.
template <typename... Parameters, typename... Arguments>
void check_refused(cudaError_t error, const std::string& told, const Shape& shape,
                   void (*kernel)(Parameters...), Arguments... arguments) {
  reset();
  CHECK(launch(shape, kernel, arguments...) == error);
  CHECK(last_fault() == told);
  CHECK(cudaGetLastError() == error);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
}

TEST_CASE("a grid or a block of sizes that no device has is told with its kernel") {
  check_refused(cudaErrorInvalidConfiguration,
                "kernel autopar::emulation::nothing: a grid of 1x65536x1 blocks; it has 1 to "
                "2147483647x65535x65535",
                {dim3(1, 65536), 1}, nothing);
  check_refused(cudaErrorInvalidConfiguration,
                "kernel autopar::emulation::nothing: a grid of 0x1x1 blocks; it has 1 to "
                "2147483647x65535x65535",
                {dim3(0), 1}, nothing);
  check_refused(cudaErrorInvalidConfiguration,
                "kernel autopar::emulation::nothing: a block of 32x33x1 threads; it has 1 to "
                "1024x1024x64, and 1024 in all",
                {1, dim3(32, 33)}, nothing);
}

TEST_CASE("a block has no more threads than its kernel's launch bounds") {
  reset();
  CHECK(launch({1, bound}, bounded) == cudaSuccess);
  CHECK(launch({1, dim3(2, bound / 2)}, bounded) == cudaSuccess);
  CHECK(launch({1, 2 * bound}, bounded_template<float>, 1.F) == cudaSuccess);
  CHECK(launch({1, 1024}, bounded_by_template<1024>) == cudaSuccess);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  check_refused(cudaErrorLaunchOutOfResources,
                "kernel autopar::emulation::bounded: a block of 65 threads; its __launch_bounds__ "
                "are 64",
                {1, bound + 1}, bounded);
  check_refused(cudaErrorLaunchOutOfResources,
                "kernel autopar::emulation::bounded_template<float>: a block of 129 threads; its "
                "__launch_bounds__ are 128",
                {1, 2 * bound + 1}, bounded_template<float>, 1.F);
  check_refused(cudaErrorLaunchOutOfResources,
                "kernel autopar::emulation::bounded_by_template<32>: a block of 33 threads; its "
                "__launch_bounds__ are 32",
                {1, 33}, bounded_by_template<32>);
  cudaFuncAttributes attributes{};
  CHECK(cudaFuncGetAttributes(&attributes, bounded) == cudaSuccess);
  CHECK(attributes.maxThreadsPerBlock == bound);
}

TEST_CASE("without launch bounds a block has the threads that any kernel has registers for") {
  reset();
  CHECK(launch({1, 256}, nothing) == cudaSuccess);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  check_refused(cudaErrorLaunchOutOfResources,
                "kernel autopar::emulation::nothing: a block of 257 threads; without "
                "__launch_bounds__ there may be registers for 256 alone",
                {1, 257}, nothing);
}

/// Sets AUTOPAR_EMULATED_ARCHITECTURE for one test.
struct Architecture {
  explicit Architecture(const char* number) {
    setenv("AUTOPAR_EMULATED_ARCHITECTURE", number, /*overwrite=*/1);
    reset();
  }
  ~Architecture() {
    unsetenv("AUTOPAR_EMULATED_ARCHITECTURE");
    reset();
  }
};

template <int kibibytes>
__global__ void has_shared(int* out) {
  __shared__ int memory[kibibytes * 256];
  __shared__ int more;
  memory[threadIdx.x] = more = static_cast<int>(threadIdx.x);
  __syncthreads();
  *out = memory[*out] + more;
}

constexpr auto dynamic_bytes = cudaFuncAttributeMaxDynamicSharedMemorySize;

TEST_CASE("a block has as much shared memory as its device's architecture gives") {
  for (const auto& [architecture, kibibytes] :
       {std::pair("80", 163), {"86", 99}, {"89", 99}, {"90", 227}, {"100", 227}, {"120", 99}}) {
    const Architecture set(architecture);
    CAPTURE(architecture);
    const int most = kibibytes << 10;
    int of_device = 0;
    CHECK(cudaDeviceGetAttribute(&of_device, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0) ==
          cudaSuccess);
    CHECK(of_device == most);
    CHECK(cudaFuncSetAttribute(nothing, dynamic_bytes, most) == cudaSuccess);
    CHECK(launch({1, 1, static_cast<std::size_t>(most)}, nothing) == cudaSuccess);
    CHECK(cudaFuncSetAttribute(nothing, dynamic_bytes, most + 1) == cudaErrorInvalidValue);
    CHECK_THAT(last_fault(), Contains("kernel autopar::emulation::nothing: is to have ") &&
                                 Contains("a block of this device has " + std::to_string(most)));
  }
  CHECK(cudaFuncSetAttribute(nothing, dynamic_bytes, 48 << 10) == cudaSuccess);
}

TEST_CASE("a kernel's static shared memory counts beside its dynamic one") {
  reset();
  DeviceArray<int> out(1);
  constexpr std::size_t beside = (48 << 10) - (40 << 10) - sizeof(int);
  CHECK(launch({1, 1, beside}, has_shared<40>, out.get()) == cudaSuccess);
  check_refused(
      cudaErrorInvalidValue,
      "kernel autopar::emulation::has_shared<40>: 8189 bytes of dynamic shared memory; "
      "it may have 8188, beside 40964 of its own, unless cudaFuncSetAttribute allows more",
      {1, 1, beside + 1}, has_shared<40>, out.get());
  CHECK(cudaFuncSetAttribute(has_shared<40>, dynamic_bytes, (227 << 10) - (40 << 10)) ==
        cudaErrorInvalidValue);
  CHECK_THAT(last_fault(), Contains("has_shared<40>") && Contains("beside 40964 of its own"));
}

__global__ void write_shared(std::size_t at) { dynamic_shared()[at] = std::byte{1}; }

TEST_CASE("a write behind the end of dynamic shared memory is a fault, as one far behind is") {
  reset();
  CHECK(launch({1, 1, 100}, write_shared, std::size_t{99}) == cudaSuccess);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(fault_of({1, 1, 100}, write_shared, std::size_t{100}) ==
        "kernel autopar::emulation::write_shared: block (0,0,0) wrote byte 100 of 100 bytes of "
        "dynamic shared memory");
  CHECK_THAT(fault_of({1, 1, 100}, write_shared, std::size_t{1023}), Contains("byte 1023 of 100"));
}

#if defined(AUTOPAR_CHECKS_ALIGNMENT)

template <typename Vector>
__global__ void load_vector(const std::byte* from, Vector* to) {
  *to = *reinterpret_cast<const Vector*>(from);
}
template <typename Vector>
__global__ void store_vector(std::byte* to) {
  *reinterpret_cast<Vector*>(to) = Vector{};
}
__global__ void use_hints(std::byte* to, const std::byte* from) {
  __stcs(reinterpret_cast<uint2*>(to), __ldg(reinterpret_cast<const uint2*>(from)));
}

/// Loads and stores `Vector` at all multiples of its alignment, and half of it further.
template <typename Vector>
void check_alignment() {
  constexpr std::size_t alignment = alignof(Vector);
  CAPTURE(alignment, sizeof(Vector));
  reset();
  DeviceArray<std::byte> bytes(3 * sizeof(Vector));
  DeviceArray<Vector> to(1);
  for (std::size_t at = 0; at < 2 * sizeof(Vector); at += alignment) {
    CHECK(launch({}, load_vector<Vector>, bytes.get() + at, to.get()) == cudaSuccess);
    CHECK(launch({}, store_vector<Vector>, bytes.get() + at) == cudaSuccess);
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
  }
  const std::string told = "which is no multiple of " + std::to_string(alignment) + " bytes";
  CHECK_THAT(fault_of({}, load_vector<Vector>, bytes.get() + alignment / 2, to.get()),
             Contains("load_vector<") && Contains("thread (0,0,0) uses memory in ") &&
                 Contains("limits_test.cpp:") && Contains(told));
  CHECK_THAT(fault_of({}, store_vector<Vector>, bytes.get() + alignment / 2), Contains(told));
}

TEST_CASE("vectors are loaded and stored at multiples of their alignment") {
  check_alignment<float4>();
  check_alignment<int4>();
  check_alignment<uint2>();
  check_alignment<double2>();
  check_alignment<ushort4>();
  check_alignment<float>();
  check_alignment<std::int64_t>();
  DeviceArray<std::byte> bytes(32);
  CHECK_THAT(fault_of({}, use_hints, bytes.get(), bytes.get() + 4),
             Contains("use_hints") && Contains("no multiple of 8 bytes"));
  CHECK_THAT(fault_of({}, use_hints, bytes.get() + 4, bytes.get()), Contains("use_hints"));
}

#endif

template <std::size_t bytes>
__global__ void copy_asynchronously(const std::byte* from) {
  require_aligned("cp.async", from, bytes);
}

TEST_CASE("what instructions ask of addresses is a fault, too") {
  DeviceArray<std::byte> bytes(32);
  reset();
  CHECK(launch({}, copy_asynchronously<4>, bytes.get() + 4) == cudaSuccess);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  CHECK_THAT(fault_of({}, copy_asynchronously<8>, bytes.get() + 4),
             Contains("copy_asynchronously<8") && Contains("cp.async at 0x") &&
                 Contains("no multiple of 8 bytes"));
  CHECK_THAT(fault_of({}, copy_asynchronously<16>, bytes.get() + 8), Contains("16 bytes"));
}

}  // namespace
}  // namespace autopar::emulation
