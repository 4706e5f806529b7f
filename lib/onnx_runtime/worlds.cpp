#include "onnx_runtime/worlds.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "base/error.h"
#include "base/file_digest.h"
#include "bundle/secret_file.h"
#include "runtime/comm/launcher.h"
#include "runtime/comm/mpi_launch.h"
#include "runtime/comm/ranks.h"
#include "runtime/comm/thread_communicator.h"

namespace autopar::onnx_runtime {
namespace {

/// The ranks of a world that this process has.
struct World {
  std::vector<std::unique_ptr<Member>> members;

  bool has_failed() const {
    return std::ranges::any_of(members, [](const auto& member) { return member->has_failed(); });
  }
};

World world_of(std::unique_ptr<runtime::HostCommunicator> communicator) {
  World world;
  world.members.push_back(std::make_unique<Member>(std::move(communicator)));
  return world;
}

/// A kind of world, and what tells worlds of this process apart.
struct Kind {
  World (*make)(const SessionEntries& entries, const runtime::LaunchedRank& launched);
  std::string key;
  /// MPI starts but once in a process.
  bool stays = false;
  runtime::LaunchedRank launched = {};  ///< of a world that has one rank in this process
};

World make_threads(const SessionEntries& entries, const runtime::LaunchedRank& /*none*/) {
  const auto count = static_cast<int>(entries.info.ranks.size());
  World world;
  for (auto& each : runtime::make_thread_communicators(count, entries.launch.timeout))
    world.members.push_back(std::make_unique<Member>(std::move(each)));
  return world;
}

World make_at_rendezvous(const SessionEntries& entries, const runtime::LaunchedRank& launched) {
  runtime::LaunchOptions options = entries.launch;
  options.rank = launched.rank;
  options.rendezvous = launched.rendezvous;
  return world_of(runtime::meet_at_rendezvous(
      options, {.count = static_cast<int>(entries.info.ranks.size()),
                .what = entries.bundle.string(),
                .digest = [&] { return xxh3_of_file(entries.bundle / "meta-info.json"); },
                .secret_file = entries.bundle / bundle::secret_file}));
}

World make_by_mpi(const SessionEntries& entries, const runtime::LaunchedRank& /*as MPI tells*/) {
  World world = world_of(runtime::make_mpi_communicator(entries.launch.timeout));
  const Member& member = *world.members.front();
  if (std::cmp_not_equal(member.size(), entries.info.ranks.size()))
    fail("{} has {} ranks, but {} processes were started: start one a rank",
         entries.bundle.string(), entries.info.ranks.size(), member.size());
  return world;
}

/// A shard tells its rank, and with it whose place at a rendezvous its process takes; else the
/// launcher that has started the process tells.
Kind kind_of(const SessionEntries& entries, int rank) {
  runtime::LaunchOptions options = entries.launch;
  if (!options.rendezvous.empty()) options.rank = rank;
  const std::string bundle = entries.bundle.string();
  const auto launched =
      runtime::find_launch(runtime::process_surroundings(), options,
                           {.what = bundle, .ranks = static_cast<int>(entries.info.ranks.size())});
  if (!launched) return {make_threads, fmt::format("threads {} {}", bundle, entries.world)};
  if (launched->rendezvous.empty()) return {make_by_mpi, "mpi", /*stays=*/true, *launched};
  return {make_at_rendezvous,
          fmt::format("rendezvous {} {} {}", launched->rendezvous, launched->rank, entries.world),
          /*stays=*/false, *launched};
}

struct Place {
  std::mutex mutex;
  std::weak_ptr<World> world;
  std::shared_ptr<World> stays;
};

/// Where the worlds with that key are, one after another.
Place& place_of(const std::string& key) {
  static std::mutex mutex;
  static std::map<std::string, Place> places;
  const std::lock_guard lock(mutex);
  return places[key];
}

}  // namespace

std::shared_ptr<Member> join_world(const SessionEntries& entries, int rank) {
  const Kind kind = kind_of(entries, rank);
  Place& place = place_of(kind.key);
  const std::lock_guard lock(place.mutex);
  std::shared_ptr<World> world = place.world.lock();
  if (!world || (world->has_failed() && !kind.stays)) {
    world = std::make_shared<World>(kind.make(entries, kind.launched));
    place.world = world;
    if (kind.stays) place.stays = world;
  }
  for (const auto& member : world->members)
    if (member->rank() == rank) return {world, member.get()};
  fail("this process is rank {} of those that were started, but its session has rank {}'s shard",
       world->members.front()->rank(), rank);
}

}  // namespace autopar::onnx_runtime
