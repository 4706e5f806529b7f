// network_benchmark: what --tls and the checksums of messages cost. Two processes of this machine
// meet twice, with TLS and without, and take turns with both at all-reduces and at messages there
// and back. Prints medians, and how long the checksums of what goes over the wire take by
// themselves.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file_digest.h"
#include "runtime/comm/ranks.h"
#include "runtime/comm/socket.h"

namespace {

using namespace autopar;
using namespace autopar::runtime;
using Clock = std::chrono::steady_clock;

constexpr int rounds = 41;

std::uint16_t free_port() {
  const Socket listener = listen_at(system_network(), {.host = "127.0.0.1", .port = 0});
  const std::string address = to_string(local_address(listener));
  return static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
}

Ranks meet(int rank, std::uint16_t port, bool encrypts) {
  return launch_ranks(
      {.rank = rank, .rendezvous = fmt::format("127.0.0.1:{}", port), .tls = encrypts},
      {.count = 2, .what = "the benchmark", .digest = [] { return "benchmark"; }});
}

double seconds_of(const std::function<void()>& work) {
  const auto begin = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + std::ssize(values) / 2);
  return values[values.size() / 2];
}

void all_reduce(HostCommunicator& world, std::vector<std::byte>& data) {
  const std::int64_t elements = std::ssize(data) / 4;
  world.all_reduce(data.data(), data.data(), elements, DataType::float32, ReduceOp::sum);
}

void send_there_and_back(HostCommunicator& world, std::vector<std::byte>& data) {
  const int other = 1 - world.rank();
  if (world.rank() == 0) world.send(data.data(), std::ssize(data), other);
  world.receive(data.data(), std::ssize(data), other);
  if (world.rank() == 1) world.send(data.data(), std::ssize(data), other);
}

using Operation = void (*)(HostCommunicator&, std::vector<std::byte>&);

void compare(const char* name, Operation operation, HostCommunicator& plain,
             HostCommunicator& encrypted, std::size_t bytes) {
  std::vector<std::byte> data(bytes);
  std::vector<double> of_plain;
  std::vector<double> of_encrypted;
  std::vector<double> of_checksums;
  for (int round = 0; round < rounds; ++round) {
    plain.barrier();
    of_plain.push_back(seconds_of([&] { operation(plain, data); }));
    plain.barrier();
    of_encrypted.push_back(seconds_of([&] { operation(encrypted, data); }));
    // A rank adds up as many bytes as it sends, and as it receives.
    of_checksums.push_back(2 * seconds_of([&] { xxh3_of(data); }));
  }
  if (plain.rank() != 0) return;
  const double without = median(of_plain);
  const double with = median(of_encrypted);
  fmt::print("| {} of {} KiB | {:.0f} | {:.0f} | {:.2f} | {:.0f} |\n", name, bytes / 1024,
             1e6 * without, 1e6 * with, with / without, 1e6 * median(of_checksums));
}

void be_rank(int rank, std::uint16_t plain_port, std::uint16_t encrypted_port) {
  Ranks plain = meet(rank, plain_port, false);
  Ranks encrypted = meet(rank, encrypted_port, true);
  plain.run_as_rank([&](HostCommunicator& without, const LocalRanks&) {
    encrypted.run_as_rank([&](HostCommunicator& with, const LocalRanks&) {
      if (rank == 0)
        fmt::print(
            "| what | plain, us | --tls, us | --tls / plain | its checksums alone, us |\n"
            "| --- | --- | --- | --- | --- |\n");
      for (const std::size_t kib : {4, 256, 4096, 65536}) {
        compare("all-reduce", all_reduce, without, with, kib << 10);
        compare("message there and back", send_there_and_back, without, with, kib << 10);
      }
    });
  });
}

}  // namespace

int main() {
  setenv("AUTOPAR_SECRET", "the secret of a benchmark", 1);
  const std::uint16_t plain_port = free_port();
  const std::uint16_t encrypted_port = free_port();
  const pid_t child = fork();
  int code = 0;
  try {
    be_rank(child == 0 ? 1 : 0, plain_port, encrypted_port);
  } catch (const std::exception& error) {
    fmt::print(stderr, "network_benchmark: {}\n", error.what());
    code = 1;
  }
  std::fflush(stdout);
  if (child == 0) _exit(code);
  int status = 0;
  waitpid(child, &status, 0);
  return code != 0 || status != 0 ? 1 : 0;
}
