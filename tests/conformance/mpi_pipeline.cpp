// One rank of six under mpirun: the bundle of three stages that the unit tests run in threads.
//
//   mpi_pipeline FOLDER   where rank 0 puts the bundle

#include <fmt/format.h>

#include <optional>

#include "base/error.h"
#include "runtime/comm/local_ranks.h"
#include "runtime/comm/mpi_launch.h"
#include "unit/runtime/pipeline_bundle.h"

int main(int, char** argv) {
  using namespace autopar;
  using namespace autopar::runtime;
  try {
    const auto timeout = std::chrono::seconds(60);
    const auto world = make_mpi_communicator(timeout);
    std::optional<testing::PipelineBundle> bundle;
    if (world->rank() == 0) bundle.emplace(nullptr, argv[1]);
    world->barrier();
    std::mt19937 random(8);
    const NamedTensors inputs = testing::random_batch(random);
    const RunOptions options{
        .device = {.threads = 1}, .repeat = 2, .profile = true, .timeout = timeout};
    const RunResult result = run_as_rank(argv[1], inputs, options, *world, local_ranks(*world));
    if (world->rank() != 0) return 0;
    const std::string wrong = testing::what_is_wrong(result, inputs);
    if (!wrong.empty()) fail("{}", wrong);
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
