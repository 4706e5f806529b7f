// One rank of an MPI world under mpirun: the conformance suite, or with an argument, a failure that
// must end all ranks: "fail" throws on the last rank, "die" kills it, "leave" lets it never come,
// "mute" lets it never send, "misfit" lets it send more than is waited for.

#include <fmt/format.h>

#include <array>
#include <csignal>
#include <string_view>
#include <thread>

#include "base/error.h"
#include "conformance/communicator_conformance.h"
#include "runtime/comm/mpi_launch.h"

namespace {

using namespace autopar;

void fail_to_send(runtime::HostCommunicator& world, std::string_view how) {
  std::array<std::byte, 8> data{};
  const int last = world.size() - 1;
  if (world.rank() == 0) world.receive(data.data(), 4, last);
  if (world.rank() == last && how == "misfit") world.send(data.data(), 8, 0);
  std::this_thread::sleep_for(std::chrono::hours(1));
}

void fail_in_the_middle(runtime::HostCommunicator& world, std::string_view how) {
  if (how == "mute" || how == "misfit") return fail_to_send(world, how);
  const auto group = world.subgroup(std::vector<int>{world.rank()});
  for (int turn = 0;; ++turn) {
    world.barrier();
    if (turn < 10 || world.rank() + 1 < world.size()) continue;
    if (how == "fail") throw Error("the last rank failed");
    if (how == "die") std::raise(SIGKILL);
    std::this_thread::sleep_for(std::chrono::hours(1));
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const auto timeout = std::chrono::seconds(argc > 1 ? 2 : 60);
    const auto world = runtime::make_mpi_communicator(timeout);
    if (argc > 1) fail_in_the_middle(*world, argv[1]);
    check_conformance(*world);
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
