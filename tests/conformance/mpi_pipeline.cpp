// One rank of six under mpirun: the bundle of three stages that the unit tests run in threads.

#include <fmt/format.h>

#include "base/error.h"
#include "runtime/comm/launcher.h"
#include "unit/runtime/pipeline_bundle.h"

int main() {
  using namespace autopar;
  using namespace autopar::runtime;
  try {
    if (!presumed_rank(process_surroundings(), {.launcher = "mpi"}))
      fail("this is one rank of six: start it by mpirun");
    const testing::PipelineBundle bundle;  // each rank has one, as on machines of their own
    std::mt19937 random(8);
    const NamedTensors inputs = testing::random_batch(random);
    Session session(bundle.dir(),
                    {.device = {.threads = 1}, .launch = {.timeout = std::chrono::seconds(60)}});
    const RunResult result = session.run(inputs, testing::profiled);
    if (!session.has_first_rank()) return 0;
    const std::string wrong = testing::what_is_wrong(result, inputs);
    if (!wrong.empty()) fail("{}", wrong);
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
