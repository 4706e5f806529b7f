#include <algorithm>
#include <vector>

#include "test_kernels.h"

namespace autopar::emulation {
namespace {

// Blocks

TEST_CASE("threads see before a barrier what the others wrote, and without one some do not") {
  reset();
  for (const int count : {1, 31, 64, 255, 256}) CHECK(reverses(count, true));
  CHECK(!reverses(256, false));
}

__global__ void positions(uint3* blocks, uint3* threads) {
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  const unsigned i = block * blockDim.x * blockDim.y * blockDim.z + thread;
  blocks[i] = blockIdx;
  threads[i] = threadIdx;
}

TEST_CASE("every thread of every block runs once, at its position") {
  reset();
  const dim3 grid(3, 4, 2), block(5, 2, 3);
  const std::size_t count = 24 * 30;
  DeviceArray<uint3> blocks(count), threads(count);
  REQUIRE(launch({grid, block}, positions, blocks.get(), threads.get()) == cudaSuccess);
  const auto seen_blocks = blocks.values(), seen_threads = threads.values();
  for (unsigned i = 0; i < count; ++i) {
    const unsigned b = i / 30, t = i % 30;
    REQUIRE(seen_blocks[i].x == b % 3);
    REQUIRE(seen_blocks[i].y == b / 3 % 4);
    REQUIRE(seen_blocks[i].z == b / 12);
    REQUIRE(seen_threads[i].x == t % 5);
    REQUIRE(seen_threads[i].y == t / 5 % 2);
    REQUIRE(seen_threads[i].z == t / 10);
  }
}

__global__ void record_order(int* order) {
  __shared__ int next;
  if (threadIdx.x == 0) next = 0;
  __syncthreads();
  order[threadIdx.x] = next++;
}

TEST_CASE("threads run in an order that the seed decides") {
  reset();
  const auto order = [](std::uint64_t seed) {
    set_seed(seed);
    return results(64, record_order);
  };
  const auto first = order(1);
  CHECK(!std::is_sorted(first.begin(), first.end()));
  CHECK(!std::is_sorted(first.rbegin(), first.rend()));
  CHECK(order(2) != first);
  CHECK(order(1) == first);
}

__global__ void count_predicates(int* out) {
  const int i = static_cast<int>(threadIdx.x);
  const int odd = __syncthreads_count(i % 2);
  const int any = __syncthreads_or(i == 5), none = __syncthreads_or(i == 1000);
  const int all = __syncthreads_and(i < 1000), not_all = __syncthreads_and(i != 5);
  out[i] = odd * 10000 + (any != 0) * 1000 + (none != 0) * 100 + (all != 0) * 10 + (not_all != 0);
}

TEST_CASE("barriers count what the threads bring") {
  reset();
  CHECK(results(100, count_predicates) == std::vector<int>(100, 50 * 10000 + 1010));
}

__global__ void leave_early(int* out) {
  __shared__ int sum;
  const int i = static_cast<int>(threadIdx.x);
  out[i] = -1;
  if (i >= 40) return;
  if (i == 0) sum = 0;
  __syncthreads();
  atomicAdd(&sum, i);
  __syncthreads();
  out[i] = sum;
}

TEST_CASE("threads that have ended are not waited for") {
  reset();
  const auto out = results(100, leave_early);
  for (int i = 0; i < 100; ++i) CHECK(out[i] == (i < 40 ? 780 : -1));
}

__global__ void fill_shared(int* out, int count) {
  auto* shared = reinterpret_cast<int*>(dynamic_shared());
  out[blockIdx.x * 2] = shared[threadIdx.x];
  shared[count - 1] = 7;
  out[blockIdx.x * 2 + 1] = reinterpret_cast<std::uintptr_t>(shared) % 1024 == 0;
}

TEST_CASE("dynamic shared memory is garbage in each block") {
  reset();
  DeviceArray<int> out(6);
  REQUIRE(launch({3, 1, 400}, fill_shared, out.get(), 100) == cudaSuccess);
  CHECK(out.values() == std::vector<int>{-1, 1, -1, 1, -1, 1});
}

// ---- Warps --------------------------------------------------------------------------------------

// Warps

template <typename T>
__global__ void shuffle(T* out) {
  const auto lane = static_cast<int>(threadIdx.x) % 32;
  const T mine = static_cast<T>(threadIdx.x) + T(1) / T(2);
  T* to = out + threadIdx.x * 6;
  to[0] = __shfl_sync(0xffffffff, mine, 35);
  to[1] = __shfl_sync(0xffffffff, mine, lane + 1, 8);
  to[2] = __shfl_up_sync(0xffffffff, mine, 3, 16);
  to[3] = __shfl_down_sync(0xffffffff, mine, 5);
  to[4] = __shfl_xor_sync(0xffffffff, mine, 9);
  to[5] = __shfl_xor_sync(0xffffffff, mine, 9, 8);
}

template <typename T>
void check_shuffles() {
  DeviceArray<T> out(64 * 6);
  REQUIRE(launch({1, 64}, shuffle<T>, out.get()) == cudaSuccess);
  const auto values = out.values();
  for (int thread = 0; thread < 64; ++thread) {
    const int lane = thread % 32, warp = thread - lane;
    const int xor8 = (lane ^ 9) <= (lane | 7) ? lane ^ 9 : lane;
    const int sources[] = {3,
                           lane / 8 * 8 + (lane + 1) % 8,
                           lane % 16 < 3 ? lane : lane - 3,
                           lane + 5 < 32 ? lane + 5 : lane,
                           lane ^ 9,
                           xor8};
    for (int i = 0; i < 6; ++i) {
      REQUIRE(values[thread * 6 + i] == static_cast<T>(warp + sources[i]) + T(1) / T(2));
    }
  }
}

TEST_CASE("shuffles bring values of 4 and 8 bytes from the lanes they name") {
  reset();
  check_shuffles<int>();
  check_shuffles<unsigned>();
  check_shuffles<float>();
  check_shuffles<double>();
  check_shuffles<long long>();
}

__global__ void votes(unsigned* out) {
  const unsigned lane = threadIdx.x % 32;
  unsigned* to = out + threadIdx.x * 8;
  to[0] = __ballot_sync(0xffffffff, lane % 3 == 0);
  to[1] = __any_sync(0xffffffff, lane == 7) != 0;
  to[2] = __all_sync(0xffffffff, lane != 7) != 0;
  to[3] = __reduce_add_sync(0xffffffff, lane);
  to[4] = static_cast<unsigned>(__reduce_min_sync(0xffffffff, -static_cast<int>(lane)));
  to[5] = __reduce_or_sync(0xffffffff, 1u << lane % 4);
  to[6] = __match_any_sync(0xffffffff, lane / 8);
  to[7] = __activemask() >> lane & 1;
}

TEST_CASE("ballots and reductions see all lanes of their warp") {
  reset();
  DeviceArray<unsigned> out(64 * 8);
  REQUIRE(launch({1, 64}, votes, out.get()) == cudaSuccess);
  const auto values = out.values();
  for (unsigned i = 0; i < 64; ++i) {
    const std::vector<unsigned> mine(values.begin() + i * 8, values.begin() + (i + 1) * 8);
    REQUIRE(mine == std::vector<unsigned>{0x49249249, 1, 0, 496, static_cast<unsigned>(-31), 15,
                                          0xffu << i % 32 / 8 * 8, 1});
  }
}

__global__ void diverge(int* out) {
  const int lane = static_cast<int>(threadIdx.x);
  // Even lanes go round five times while the odd ones go round twice.
  int sum = 0;
  if (lane % 2 == 0) {
    for (int i = 0; i < 5; ++i) sum += __shfl_xor_sync(0x55555555, lane, 2);
  } else {
    for (int i = 0; i < 2; ++i) sum += __shfl_down_sync(0xaaaaaaaa, lane, 2);
  }
  __syncwarp();
  out[lane] = sum + __shfl_sync(0xffffffff, sum, 0);
}

TEST_CASE("parts of a warp go their own ways and meet again") {
  reset();
  const auto out = results(32, diverge);
  for (int lane = 0; lane < 30; ++lane) {
    CHECK(out[lane] == 10 + (lane % 2 == 0 ? 5 * (lane ^ 2) : 2 * (lane + 2)));
  }
}

struct Fragment {
  float a[3];
  char b;
};

__global__ void sum_fragments(float* out) {
  const auto lane = static_cast<float>(threadIdx.x);
  Fragment all[32];
  warp_exchange(Fragment{{lane, 2 * lane, 1}, 'x'}, all);
  float sum = 0;
  for (const Fragment& fragment : all) sum += fragment.a[0] + fragment.a[1] + fragment.a[2];
  out[threadIdx.x] = sum;
}

TEST_CASE("a warp exchanges what an emulated instruction needs") {
  reset();
  CHECK(results(32, sum_fragments) == std::vector<float>(32, 3 * 496 + 32));
}

__global__ void change_atomically(unsigned* out) {
  const unsigned i = threadIdx.x;
  atomicAdd(&out[0], 2);
  atomicMax(&out[1], i);
  atomicMin(&out[2], i + 3);
  atomicOr(&out[3], 1u << i % 32);
  atomicAdd(reinterpret_cast<float*>(&out[4]), 0.5f);
  unsigned seen = out[5];
  for (unsigned old; (old = atomicCAS(&out[5], seen, seen + 1)) != seen;) seen = old;
  atomicInc(&out[6], 5);
  if (atomicExch(&out[7], i) == i) __trap();
}

TEST_CASE("atomics change memory as CUDA's do") {
  reset();
  DeviceArray<unsigned> out(std::vector<unsigned>{0, 0, 100, 0, 0, 0, 0, 1000});
  REQUIRE(launch({1, 64}, change_atomically, out.get()) == cudaSuccess);
  const auto values = out.values();
  CHECK(values[0] == 128);
  CHECK(values[1] == 63);
  CHECK(values[2] == 3);
  CHECK(values[3] == 0xffffffff);
  CHECK(__uint_as_float(values[4]) == 32);
  CHECK(values[5] == 64);
  CHECK(values[6] == 64 % 6);
}

TEST_CASE("bits are counted and moved as CUDA's intrinsics do") {
  CHECK(__popc(0xf0f0u) == 8);
  CHECK(__clz(1) == 31);
  CHECK(__clz(0) == 32);
  CHECK(__ffs(0) == 0);
  CHECK(__ffs(8) == 4);
  CHECK(__brev(1u) == 0x80000000u);
  CHECK(__brev(0x12345678u) == 0x1e6a2c48u);
  CHECK(__byte_perm(0x33221100u, 0x77665544u, 0x7250u) == 0x77225500u);
  CHECK(__byte_perm(0x800000ffu, 0, 0x89b0u) == 0xff00ffffu);
  CHECK(__funnelshift_l(0x80000000u, 1, 1) == 3);
  CHECK(__umulhi(0x80000000u, 6) == 3);
  CHECK(__float2int_rn(2.5f) == 2);
}

// ---- Faults -------------------------------------------------------------------------------------

}  // namespace
}  // namespace autopar::emulation
