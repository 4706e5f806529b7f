#include "runtime/comm/launcher.h"

#include <catch2/catch.hpp>
#include <map>
#include <string>

#include "base/error.h"

namespace autopar::runtime {
namespace {

using Environment = std::map<std::string, std::string>;

Surroundings surroundings_of(const Environment& environment, const std::string& host = "vm") {
  return {.variable = [environment](const char* name) -> std::optional<std::string> {
            const auto found = environment.find(name);
            if (found == environment.end()) return std::nullopt;
            return found->second;
          },
          .host_name = [host] { return host; }};
}

Environment with(Environment environment, const Environment& others) {
  for (const auto& [name, value] : others) environment[name] = value;
  return environment;
}

Environment without(Environment environment, const char* name) {
  environment.erase(name);
  return environment;
}

/// What is decided for a bundle of four ranks: the log's line, or what is refused.
std::string decision(const Environment& environment, const LaunchOptions& options = {},
                     const ExpectedLaunch& expected = {.what = "out", .ranks = 4},
                     const std::string& host = "vm") {
  try {
    const auto launched = find_launch(surroundings_of(environment, host), options, expected);
    return launched ? to_string(*launched) : "all ranks here";
  } catch (const Error& error) {
    return error.what();
  }
}

const Environment torchrun = {
    {"RANK", "1"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "host"}, {"MASTER_PORT", "29501"}};
const Environment open_mpi = {{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "4"}};
const Environment pmi = {{"PMI_RANK", "1"}, {"PMI_SIZE", "4"}};
const Environment srun = {{"SLURM_PROCID", "1"},    {"SLURM_STEP_NUM_TASKS", "4"},
                          {"SLURM_NTASKS", "4"},    {"SLURM_STEP_NODELIST", "node[01-03,07]"},
                          {"SLURM_JOB_ID", "1000"}, {"SLURM_STEP_ID", "2"}};
const Environment pod = {{"JOB_COMPLETION_INDEX", "2"}};

TEST_CASE("nobody has started several processes") {
  CHECK(decision({}) == "all ranks here");
  CHECK(decision({{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"MASTER_ADDR", "host"}}) ==
        "all ranks here");
  CHECK(decision({{"MASTER_ADDR", "host"}, {"MASTER_PORT", "1"}}) == "all ranks here");
}

TEST_CASE("each launcher's variables tell a rank and where the ranks meet") {
  CHECK(decision(torchrun) == "started by torchrun: rank 1 of 4, meeting at host:29501");
  CHECK(decision(open_mpi) == "started by mpirun: rank 1 of 4, connected by MPI");
  CHECK(decision(pmi) == "started by a launcher with PMI: rank 1 of 4, connected by MPI");
  CHECK(decision({{"PMIX_RANK", "3"}}) ==
        "started by a launcher with PMIx: rank 3, connected by MPI");
  CHECK(decision(srun) == "started by srun: rank 1 of 4, meeting at node01:21002");
  CHECK(decision(pod, {}, {.what = "out", .ranks = 4}, "split-2.ranks.default.svc.cluster.local") ==
        "started by a Kubernetes job: rank 2 of 4, meeting at "
        "split-0.ranks.default.svc.cluster.local:29500");
}

TEST_CASE("where torchrun's ranks meet") {
  CHECK(decision(without(torchrun, "MASTER_PORT")) ==
        "started by torchrun: rank 1 of 4, meeting at host:29500");
  CHECK(decision(with(torchrun, {{"MASTER_ADDR", "fe80::1"}})) ==
        "started by torchrun: rank 1 of 4, meeting at [fe80::1]:29501");
  const Environment agent_listens = {{"TORCHELASTIC_USE_AGENT_STORE", "True"}};
  CHECK(decision(with(torchrun, agent_listens)) ==
        "started by torchrun: rank 1 of 4, meeting at host:29502");
}

TEST_CASE("where tasks of Slurm's meet") {
  const Environment master = {{"MASTER_ADDR", "host"}, {"MASTER_PORT", "1234"}};
  CHECK(decision(with(srun, master)) == "started by srun: rank 1 of 4, meeting at host:1234");
  CHECK_THAT(decision(with(srun, {{"SLURM_STEP_ID", "3"}})), Catch::EndsWith("node01:21003"));
  CHECK_THAT(decision(with(srun, {{"SLURM_JOB_ID", "2000000000"}})),
             Catch::EndsWith("node01:10002"));
  CHECK_THAT(decision(without(srun, "SLURM_JOB_ID")), Catch::Contains("set MASTER_PORT"));
  CHECK_THAT(decision(without(srun, "SLURM_STEP_NODELIST")), Catch::Contains("set MASTER_ADDR"));
  CHECK_THAT(decision(with(srun, {{"SLURM_STEP_NODELIST", "node["}})),
             Catch::Contains("'node[' is no list of hosts"));
}

TEST_CASE("Slurm with PMI connects by MPI, unless a place to meet is given") {
  const std::string hint = " (--launcher slurm would do without MPI)";
  CHECK(decision(with(srun, pmi)) ==
        "started by a launcher with PMI: rank 1 of 4, connected by MPI" + hint);
  CHECK(decision(with(srun, {{"PMIX_RANK", "1"}})) ==
        "started by a launcher with PMIx: rank 1 of 4, connected by MPI" + hint);
  CHECK(decision(with(srun, open_mpi)) == "started by mpirun: rank 1 of 4, connected by MPI");
  CHECK_THAT(decision(with(with(srun, pmi), {{"AUTOPAR_RENDEZVOUS", "here:7"}})),
             Catch::EndsWith("rank 1 of 4, meeting at here:7"));
}

TEST_CASE("a shell or a batch script of Slurm's is one process") {
  CHECK(decision(with(srun, {{"SLURM_STEP_NUM_TASKS", "1"}, {"SLURM_PROCID", "0"}})) ==
        "all ranks here");
  CHECK(decision({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}}) == "all ranks here");
}

TEST_CASE("a pod's name tells that of rank 0's") {
  const auto in_pod = [](const std::string& host, const Environment& more = {}) {
    return decision(with(pod, more), {}, {.what = "out", .ranks = 4}, host);
  };
  CHECK_THAT(in_pod("a-2-2.ranks"), Catch::EndsWith("rank 2 of 4, meeting at a-2-0.ranks:29500"));
  CHECK_THAT(in_pod("split-2"), Catch::Contains("let a headless service be"));
  for (const char* host : {"node7.example", "split-12.ranks", "-2.ranks", ""})
    CHECK_THAT(in_pod(host), Catch::Contains("set MASTER_ADDR, or AUTOPAR_RENDEZVOUS=HOST:PORT"));
  CHECK_THAT(in_pod("node7", {{"MASTER_ADDR", "first"}, {"MASTER_PORT", "9"}}),
             Catch::EndsWith("meeting at first:9"));
  CHECK_THAT(in_pod("node7", {{"AUTOPAR_RENDEZVOUS", "[::1]:9"}}),
             Catch::EndsWith("meeting at [::1]:9"));
}

TEST_CASE("of what has one rank, each pod runs the whole") {
  CHECK(decision(pod, {}, {.what = "out", .ranks = 1}) == "all ranks here");
}

TEST_CASE("options win over what a launcher says") {
  const LaunchOptions third{.rank = 3, .rendezvous = "mine:1"};
  const auto launched = find_launch(surroundings_of(with(torchrun, {{"WORLD_SIZE", "9"}})), third,
                                    {.what = "out", .ranks = 4});
  REQUIRE(launched);
  CHECK(launched->launcher.empty());
  CHECK(launched->rank == 3);
  CHECK(launched->size == 4);
  CHECK(launched->rendezvous == "mine:1");
  CHECK(decision(torchrun, {.rendezvous = "mine:1"}) ==
        "started by torchrun: rank 1 of 4, meeting at mine:1");
  CHECK_THAT(decision({{"AUTOPAR_RENDEZVOUS", "here:7"}}, {.rank = 2}),
             Catch::EndsWith("rank 2 of 4, meeting at here:7"));
  CHECK(decision(torchrun, {.launcher = "none"}) == "all ranks here");
  CHECK(decision(with(torchrun, srun), {.launcher = "slurm"}) ==
        "started by srun: rank 1 of 4, meeting at host:29501");
  CHECK_THAT(decision(torchrun, {.launcher = "mpi"}), Catch::Contains("it has not started"));
  CHECK_THAT(decision({}, {.launcher = "ssh"}),
             Catch::Contains("--launcher ssh: give one of auto, kubernetes, mpi, none"));
}

TEST_CASE("half of what a launcher tells is refused") {
  CHECK_THAT(decision(without(torchrun, "MASTER_ADDR")),
             Catch::Contains("RANK is set, but not MASTER_ADDR"));
  CHECK_THAT(decision(without(torchrun, "WORLD_SIZE")),
             Catch::Contains("RANK is 1, but WORLD_SIZE is not set"));
  CHECK_THAT(decision(without(torchrun, "RANK")),
             Catch::Contains("WORLD_SIZE is 4, but RANK is not set"));
  CHECK_THAT(decision({{"AUTOPAR_RENDEZVOUS", "here:7"}}),
             Catch::Contains("nothing tells this process's rank"));
  CHECK_THAT(decision({}, {.rendezvous = "here:7"}), Catch::Contains("give --rank too"));
}

TEST_CASE("numbers that are none, or out of range, are refused") {
  for (const char* text : {"", "one", "-1", "1x", "99999999999"}) {
    CHECK_THAT(decision(with(torchrun, {{"RANK", text}})), Catch::Contains("RANK is '"));
    CHECK_THAT(decision(with(torchrun, {{"MASTER_PORT", text}})),
               Catch::Contains("MASTER_PORT is '"));
  }
  for (const char* port : {"0", "65536"})
    CHECK_THAT(decision(with(torchrun, {{"MASTER_PORT", port}})),
               Catch::Contains("ports are 1 to 65535"));
  CHECK(decision(with(torchrun, {{"RANK", "4"}})) == "RANK is 4, but out has ranks 0 to 3");
  CHECK(decision({{"JOB_COMPLETION_INDEX", "4"}, {"MASTER_ADDR", "host"}}) ==
        "JOB_COMPLETION_INDEX is 4, but out has ranks 0 to 3");
}

TEST_CASE("another number of processes than there are ranks is refused") {
  for (const Environment& environment : {torchrun, open_mpi, pmi, srun})
    CHECK_THAT(decision(environment, {}, {.what = "out", .ranks = 3}),
               Catch::StartsWith("out has 3 ranks, but 4 processes were started by"));
  CHECK_THAT(decision(torchrun, {}, {.what = "out", .ranks = 1}),
             Catch::Contains("(WORLD_SIZE=4); start 1"));
}

TEST_CASE("where nobody says how many ranks there are, the launcher does") {
  const ExpectedLaunch any{.what = "a mesh"};
  CHECK(decision(torchrun, {}, any) == "started by torchrun: rank 1 of 4, meeting at host:29501");
  CHECK_THAT(decision(pod, {}, any), Catch::Contains("give --ranks"));
}

TEST_CASE("launchers within launchers: the inner one counts, and they must not contradict") {
  const Environment agent_of_node = {{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "2"}};
  CHECK_THAT(decision(with(torchrun, agent_of_node)), Catch::StartsWith("started by torchrun"));
  CHECK_THAT(decision(with(open_mpi, agent_of_node)), Catch::StartsWith("started by mpirun"));
  CHECK_THAT(decision(with(torchrun, pod)), Catch::StartsWith("started by torchrun"));
  CHECK_THAT(decision(with(torchrun, srun)), Catch::StartsWith("started by torchrun"));
  const std::string told = decision(with(torchrun, with(srun, {{"SLURM_PROCID", "3"}})));
  CHECK(
      told ==
      "RANK says that this is rank 1, SLURM_PROCID that it is rank 3; unset what is left over, or "
      "say which counts with --launcher torchrun or slurm");
}

TEST_CASE("the log's rank is known before anything is checked") {
  const auto presumed = [](const Environment& environment, const LaunchOptions& options = {}) {
    return presumed_rank(surroundings_of(environment), options);
  };
  CHECK(presumed(torchrun) == 1);
  CHECK(presumed(with(torchrun, {{"RANK", "17"}})) == 17);
  CHECK(presumed(pod) == 2);
  CHECK(presumed({}, {.rank = 3, .rendezvous = "here:7"}) == 3);
  CHECK(presumed({}, {.rank = 0}) == std::nullopt);
  CHECK(presumed({}) == std::nullopt);
  CHECK(presumed(torchrun, {.launcher = "none"}) == std::nullopt);
  CHECK(presumed(with(torchrun, {{"RANK", "one"}})) == std::nullopt);
}

}  // namespace
}  // namespace autopar::runtime
