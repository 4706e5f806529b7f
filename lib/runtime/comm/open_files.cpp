#include "runtime/comm/open_files.h"

#include <sys/resource.h>

#include <algorithm>

#include "base/error.h"

namespace autopar::runtime {

namespace {

/// The bundle's files, plugins, pipes, and those who connect and have not proven who they are.
constexpr rlim_t for_other_things = 256;

/// A connection to each other rank and one from it; twice that for ranks that are in stages, too.
rlim_t needed_by(int ranks) { return for_other_things + 2 * static_cast<rlim_t>(ranks); }
rlim_t welcome_for(int ranks) { return for_other_things + 5 * static_cast<rlim_t>(ranks); }

rlimit limit_of_files() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  return limit;
}

}  // namespace

void provide_open_files(int ranks) {
  rlimit limit = limit_of_files();
  const rlim_t needed = needed_by(ranks);
  if (limit.rlim_cur < welcome_for(ranks)) {
    limit.rlim_cur = std::max(limit.rlim_cur, std::min(limit.rlim_max, welcome_for(ranks)));
    setrlimit(RLIMIT_NOFILE, &limit);
    limit = limit_of_files();
  }
  // A small world fits what every system gives.
  if (ranks > 64 && limit.rlim_cur < needed)
    fail("{} ranks need {} open files each; the limit is {}: ulimit -n {}", ranks, needed,
         limit.rlim_cur, needed);
}

std::string too_many_open_files(int rank, int ranks) {
  return fmt::format("rank {} has too many open files, and the limit is {}: ulimit -n {}", rank,
                     limit_of_files().rlim_cur,
                     std::max(2 * limit_of_files().rlim_cur, welcome_for(ranks)));
}

}  // namespace autopar::runtime
