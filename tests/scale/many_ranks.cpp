// many_ranks RANKS: so many processes of this machine meet and run each kind of collective, of few
// and of many bytes, and rank 0 tells what they took.
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "runtime/comm/ranks.h"
#include "runtime/comm/socket.h"

using namespace autopar;
using namespace autopar::runtime;
using namespace std::chrono_literals;

namespace {

constexpr int usual_soft_limit = 1024;  // of open files
constexpr int is_skipped = 77;          // CTest's

std::uint16_t free_port() {
  const Socket listener = listen_at(system_network(), {.host = "127.0.0.1", .port = 0});
  const std::string address = to_string(local_address(listener));
  return static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
}

template <typename Number>
std::byte* bytes_of(std::vector<Number>& numbers) {
  return reinterpret_cast<std::byte*>(numbers.data());
}

void check(bool is_right, const char* what) {
  if (!is_right) fail("{} gives wrong numbers", what);
}

void check_all_reduce(HostCommunicator& world, std::int64_t elements) {
  std::vector<std::int64_t> numbers(at(elements));
  for (std::int64_t i = 0; i < elements; ++i) numbers[at(i)] = (world.rank() + 1) * (i % 7);
  world.all_reduce(bytes_of(numbers), bytes_of(numbers), elements, DataType::int64, ReduceOp::sum);
  const std::int64_t sum = std::int64_t{world.size()} * (world.size() + 1) / 2;
  for (std::int64_t i = 0; i < elements; ++i) check(numbers[at(i)] == sum * (i % 7), "all-reduce");
}

/// Sums of floats depend on their order, which is that of the ranks however they travel.
void check_reduce_scatter(HostCommunicator& world) {
  const auto value_of = [](int rank, std::size_t i) {
    return 1.0F / static_cast<float>(rank + 1) + static_cast<float>(i % 5);
  };
  std::vector<std::int64_t> blocks;
  for (int rank = 0; rank < world.size(); ++rank) blocks.push_back((rank + 1) % 4);
  const std::int64_t begin = std::reduce(blocks.begin(), blocks.begin() + world.rank());
  std::vector<float> in(at(std::reduce(blocks.begin(), blocks.end())));
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = value_of(world.rank(), i);
  std::vector<float> out(at(blocks[at(world.rank())]));
  world.reduce_scatter(bytes_of(in), bytes_of(out), blocks, DataType::float32, ReduceOp::sum);
  for (std::size_t i = 0; i < out.size(); ++i) {
    float sum = value_of(0, at(begin) + i);
    for (int rank = 1; rank < world.size(); ++rank) sum += value_of(rank, at(begin) + i);
    check(out[i] == sum, "reduce-scatter");
  }
}

void check_all_gather(HostCommunicator& world) {
  std::vector<std::int64_t> mine(at(world.rank() % 3), world.rank());
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> expected;
  for (int rank = 0; rank < world.size(); ++rank) {
    sizes.push_back(8 * (rank % 3));
    expected.insert(expected.end(), at(rank % 3), rank);
  }
  std::vector<std::int64_t> all(expected.size());
  world.all_gather(bytes_of(mine), bytes_of(all), sizes);
  check(all == expected, "all-gather");
}

void check_broadcast(HostCommunicator& world) {
  const int root = world.size() / 2;
  std::vector<std::int64_t> numbers(100, world.rank());
  world.broadcast(bytes_of(numbers), 800, root);
  check(numbers == std::vector<std::int64_t>(100, root), "broadcast");
}

void check_messages(HostCommunicator& world) {
  if (world.size() < 2) return;
  const int last = world.size() - 1;
  std::vector<std::int64_t> number = {world.rank()};
  if (world.rank() == last) world.send(bytes_of(number), 8, 0);
  if (world.rank() == 0) world.receive(bytes_of(number), 8, last);
  check(number.front() == (world.rank() == 0 ? last : world.rank()), "a message");
}

void run(HostCommunicator& world) {
  const auto begin = std::chrono::steady_clock::now();
  world.barrier();
  check_all_reduce(world, 8);
  check_all_reduce(world, 5000);
  check_reduce_scatter(world);
  check_all_gather(world);
  check_broadcast(world);
  check_messages(world);
  world.barrier();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  if (world.rank() == 0) fmt::print("{} ranks ran in {:.1f} s\n", world.size(), took.count());
}

/// The exit code of a rank's process.
int be_rank(int rank, int ranks, std::uint16_t port) {
  try {
    const auto begin = std::chrono::steady_clock::now();
    const LaunchOptions options{
        .rank = rank, .rendezvous = fmt::format("127.0.0.1:{}", port), .timeout = 10min};
    Ranks world = launch_ranks(
        options, {.count = ranks, .what = "the test", .digest = [] { return "many ranks"; }});
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    if (rank == 0) fmt::print("{} ranks met in {:.1f} s\n", ranks, took.count());
    world.run_as_rank([](HostCommunicator& host, const LocalRanks&) { run(host); });
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "rank {}: {}\n", rank, error.what());
    return 1;
  }
}

/// Starts them; fewer where the system lets no more processes be.
std::vector<pid_t> start(int ranks) {
  const std::uint16_t port = free_port();
  std::vector<pid_t> children;
  for (int rank = 0; rank < ranks; ++rank) {
    const pid_t child = fork();
    if (child < 0) break;
    if (child == 0) {
      const int code = be_rank(rank, ranks, port);
      std::fflush(stdout);
      _exit(code);
    }
    children.push_back(child);
  }
  return children;
}

void terminate(std::span<const pid_t> children) {
  for (const pid_t child : children) kill(child, SIGTERM);
}

/// How many failed; the first one that does ends the others, which wait for it.
int failures(std::span<const pid_t> children) {
  int failed = 0;
  for (std::size_t rank = 0; rank < children.size(); ++rank) {
    int status = 0;
    waitpid(children[rank], &status, 0);
    if (status != 0 && failed++ == 0) terminate(children.subspan(rank + 1));
  }
  return failed;
}

}  // namespace

int main(int argc, char** argv) {
  const int ranks = argc > 1 ? std::stoi(argv[1]) : 1024;
  setenv("AUTOPAR_SECRET", "a secret of the tests", 1);
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  if (files.rlim_max < at(3 * ranks)) {
    fmt::print("{} ranks need more open files than the hard limit here, {}\n", ranks,
               files.rlim_max);
    return is_skipped;
  }
  files.rlim_cur = std::min<rlim_t>(files.rlim_max, usual_soft_limit);
  setrlimit(RLIMIT_NOFILE, &files);
  const std::vector<pid_t> children = start(ranks);
  if (std::ssize(children) < ranks) {
    fmt::print("the system lets {} processes be, and no more\n", children.size());
    terminate(children);
    failures(children);
    return is_skipped;
  }
  const int failed = failures(children);
  fmt::print("{} of {} ranks failed\n", failed, ranks);
  return failed > 0 ? 1 : 0;
}
