// Ranks meet and compute over a simulated network, thousands of times, each time with other delays
// and other faults, all drawn by a seed. Whatever happens, a schedule ends in one of two ways: with
// right results, or each rank that still lives throws an Error that accuses those alone who are
// to blame.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "runtime/comm/tcp_communicator.h"
#include "simulation/simulated_network.h"

namespace autopar::simulation {
namespace {

using namespace std::chrono_literals;
using runtime::HostCommunicator;
using runtime::ReduceOp;

constexpr auto timeout = 3s;
constexpr std::uint16_t meeting_port = 29500;
constexpr auto longest = std::chrono::seconds(60);

// --- What ranks do -----------------------------------------------------------------------------

enum class Operation { barrier, all_reduce, all_gather, all_to_all, broadcast, message, pause };

/// The same on all ranks.
struct Step {
  Operation operation = Operation::barrier;
  std::int64_t elements = 0;
  int from = 0;  ///< of a message or broadcast
  int to = 0;
};

/// Small whole numbers: exact in any order.
float value_of(int rank, std::int64_t i) { return static_cast<float>((rank * 7 + i * 3) % 101); }

std::vector<float> tensor_of(int rank, std::int64_t elements) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < elements; ++i) values.push_back(value_of(rank, i));
  return values;
}

std::byte* bytes_of(std::vector<float>& values) {
  return reinterpret_cast<std::byte*>(values.data());
}

/// What a rank gets wrong, if anything: results that are not what they must be.
struct WrongResult {
  std::string what;
};

void require_equal(const std::vector<float>& got, const std::vector<float>& expected,
                   const char* what) {
  if (got != expected) throw WrongResult{what};
}

void take_step(HostCommunicator& world, const Step& step, runtime::Network& network) {
  const int rank = world.rank();
  const int size = world.size();
  const std::int64_t n = step.elements;
  const std::vector<std::int64_t> blocks(static_cast<std::size_t>(size), 4 * n);
  std::vector<float> mine = tensor_of(rank, n);
  std::vector<float> expected;
  switch (step.operation) {
    case Operation::barrier:
      return world.barrier();
    case Operation::pause:
      // One rank is at work on its own.
      if (rank == step.from) network.sleep_until(network.now() + 300ms);
      return;
    case Operation::all_reduce: {
      world.all_reduce(bytes_of(mine), bytes_of(mine), n, graph::DataType::float32, ReduceOp::sum);
      for (std::int64_t i = 0; i < n; ++i) {
        float& sum = expected.emplace_back();
        for (int r = 0; r < size; ++r) sum += value_of(r, i);
      }
      return require_equal(mine, expected, "all-reduce");
    }
    case Operation::all_gather: {
      std::vector<float> all(static_cast<std::size_t>(n * size));
      world.all_gather(bytes_of(mine), bytes_of(all), blocks);
      for (int r = 0; r < size; ++r)
        for (const float value : tensor_of(r, n)) expected.push_back(value);
      return require_equal(all, expected, "all-gather");
    }
    case Operation::all_to_all: {
      std::vector<float> in = tensor_of(rank, n * size);
      std::vector<float> out(in.size());
      world.all_to_all(bytes_of(in), blocks, bytes_of(out), blocks);
      for (int r = 0; r < size; ++r)
        for (std::int64_t i = 0; i < n; ++i) expected.push_back(value_of(r, rank * n + i));
      return require_equal(out, expected, "all-to-all");
    }
    case Operation::broadcast:
      world.broadcast(bytes_of(mine), 4 * n, step.from);
      return require_equal(mine, tensor_of(step.from, n), "broadcast");
    case Operation::message:
      if (rank == step.from) world.send(bytes_of(mine), 4 * n, step.to);
      if (rank == step.to) {
        world.receive(bytes_of(mine), 4 * n, step.from);
        require_equal(mine, tensor_of(step.from, n), "message");
      }
      return;
  }
}

// --- One schedule ------------------------------------------------------------------------------

enum class Fault { none, kill, power_off, stall, partition, cut, flip };
constexpr std::array names_of_faults = {"none",      "kill", "power-off", "stall",
                                        "partition", "cut",  "flip"};

struct Outcome {
  bool has_ended = false;
  bool is_right = false;
  std::string error;
  std::string wrong;
  Deadline ended_at;
};

/// Whom a rank's error accuses; itself where it takes the blame.
std::set<int> accused_by(int rank, const std::string& error) {
  static const std::regex of_this_rank(
      "was given up: (this rank failed|rank \\d+ (lost the connection to|waited too long for|got "
      "damaged bytes from|is at something else than) this rank)");
  static const std::regex of_rank_0(
      "nobody answers at|took the connection|closed the connection|rank 0 at .* (cannot prove|does "
      "not know|runs another|is another)|is another program|what rank 0 at");
  static const std::regex of_others(
      "(?:lost the connection to|waited too long for|got damaged bytes from|is at something else "
      "than) "
      "rank (\\d+)|another rank failed \\(rank (\\d+)\\)|rank (\\d+) died|lost rank (\\d+)|cannot "
      "reach rank "
      "(\\d+)|for rank\\(s\\) ([\\d, ]+);|bytes of rank (\\d+)|what rank (\\d+)|connection with "
      "rank "
      "(\\d+)|^rank\\(s\\) ([\\d, ]+) did not come|^rank (\\d+) (?:came|was started|is one "
      "of|runs)|"
      "needs rank (\\d+)|but rank (\\d+) at");
  std::set<int> accused;
  if (std::regex_search(error, of_this_rank)) accused.insert(rank);
  if (std::regex_search(error, of_rank_0)) accused.insert(0);
  static const std::regex number("\\d+");
  for (std::sregex_iterator match(error.begin(), error.end(), of_others), end; match != end;
       ++match) {
    for (std::size_t group = 1; group < match->size(); ++group) {
      const std::string ranks = (*match)[group].str();
      for (std::sregex_iterator each(ranks.begin(), ranks.end(), number); each != end; ++each)
        accused.insert(std::stoi(each->str()));
    }
  }
  return accused;
}

class Schedule {
 public:
  explicit Schedule(std::uint64_t seed)
      : shape_(seed), ranks_(ranks_of(seed, shape_)), world_(seed, ranks_ + 2) {
    for (auto steps = world_.draw(1, 7); steps > 0; --steps)
      steps_.push_back(
          {.operation = static_cast<Operation>(world_.draw(0, 6)),
           .elements = world_.draw_chance(15) ? world_.draw(0, 3000) : world_.draw(0, 60),
           .from = static_cast<int>(world_.draw(0, ranks_ - 1))});
    for (Step& step : steps_)
      step.to = (step.from + static_cast<int>(world_.draw(1, ranks_ - 1))) % ranks_;
    outcomes_.resize(static_cast<std::size_t>(ranks_));
    has_strangers_ = world_.draw_chance(40);
    fault_ = world_.draw_chance(30) ? Fault::none : static_cast<Fault>(world_.draw(1, 6));
  }

  /// Empty where all is as it must be.
  std::string check() {
    start_ranks();
    if (has_strangers_) start_strangers();
    if (fault_ != Fault::none) plan_fault();
    const bool has_ended = world_.run(Deadline(1000s) + longest);
    for (int rank = 0; rank < ranks_; ++rank) {
      std::string wrong = what_is_wrong_with(rank);
      if (!wrong.empty()) return wrong;
    }
    return has_ended ? "" : "a stranger hangs";
  }

  Fault fault() const { return fault_; }
  bool has_struck() const { return !to_blame_.empty(); }
  bool has_strangers() const { return has_strangers_; }
  bool is_right() const {
    return std::ranges::all_of(outcomes_, [](const Outcome& each) { return each.is_right; });
  }
  void print() const {
    fmt::print("  {} ranks, fault: {}, to blame: {}\n", ranks_,
               names_of_faults[static_cast<std::size_t>(fault_)], fmt::join(to_blame_, ", "));
    for (std::size_t rank = 0; rank < outcomes_.size(); ++rank) {
      const Outcome& outcome = outcomes_[rank];
      const bool is_dead = gone_.contains(static_cast<int>(rank));
      fmt::print("  rank {}: {}\n", rank,
                 is_dead              ? "killed"
                 : !outcome.has_ended ? "hangs"
                 : outcome.is_right   ? "right"
                                      : outcome.error + outcome.wrong);
    }
  }

 private:
  /// Some worlds are so large that ranks connect with a few others alone.
  static int ranks_of(std::uint64_t seed, std::mt19937_64& shape) {
    return static_cast<int>(seed % 500 == 99 ? 33 + shape() % 8 : 2 + shape() % 4);
  }

  void start_ranks() {
    for (int rank = 0; rank < ranks_; ++rank) {
      const Deadline begin = world_.now() + Duration(world_.draw(0, 800'000));
      world_.start(rank, begin, [this, rank] { run_rank(rank); });
    }
  }

  void run_rank(int rank) {
    Outcome& outcome = outcomes_[static_cast<std::size_t>(rank)];
    runtime::Network& network = world_.network(rank);
    try {
      runtime::Rendezvous rendezvous;
      rendezvous.rank = rank;
      rendezvous.size = ranks_;
      rendezvous.meeting_point.host = "10.0.0.1";
      rendezvous.meeting_point.port = meeting_port;
      rendezvous.bundle_digest = "0123456789abcdef";
      rendezvous.secret = "a secret of the simulation";
      rendezvous.timeout = timeout;
      rendezvous.network = &network;
      const auto communicator = runtime::make_tcp_communicator(rendezvous);
      for (const Step& step : steps_) take_step(*communicator, step, network);
      outcome.is_right = true;
    } catch (const Error& error) {
      outcome.error = error.what();
    } catch (const WrongResult& result) {
      outcome.wrong = "wrong result of " + result.what;
    } catch (const std::exception& error) {
      outcome.wrong = std::string("no Error, but ") + error.what();
    }
    outcome.ended_at = world_.now();
    outcome.has_ended = true;
  }

  void start_strangers() {
    for (int stranger = ranks_; stranger < ranks_ + 2; ++stranger) {
      const Deadline begin = world_.now() + Duration(world_.draw(0, 2'000'000));
      world_.start(stranger, begin, [this, stranger] { intrude(world_.network(stranger)); });
    }
  }

  /// Comes to where ranks listen, with rubbish, hellos without a proof, or nothing at all.
  void intrude(runtime::Network& network) {
    std::vector<runtime::Socket> kept;
    for (int turn = 0; turn < 6; ++turn) {
      const auto machine = static_cast<int>(world_.draw(0, ranks_ - 1));
      const auto port =
          machine == 0 ? meeting_port : static_cast<std::uint16_t>(20000 + world_.draw(0, 60));
      const auto soon = network.now() + 200ms;
      runtime::Connected made =
          connect_to(network, SimulatedWorld::address_of(machine, port), soon);
      if (!made.socket.is_open()) continue;
      runtime::Hello hello;
      hello.rank = static_cast<std::int32_t>(world_.draw(-1, ranks_));
      hello.size = ranks_;
      std::memcpy(hello.bundle_digest.data(), "0123456789abcdef", hello.bundle_digest.size());
      if (world_.draw_chance(30)) hello.signature.version = 99;
      if (world_.draw_chance(20)) hello.signature.magic = {};
      if (world_.draw_chance(80)) send_all(made.socket, runtime::bytes_of(hello), soon);
      if (world_.draw_chance(50)) send_all(made.socket, runtime::bytes_of(hello), soon);
      if (world_.draw_chance(50)) kept.push_back(std::move(made.socket));
      network.sleep_until(network.now() + Duration(world_.draw(0, 300'000)));
    }
    network.sleep_until(network.now() + 3s);
  }

  void plan_fault() {
    const Deadline time =
        world_.now() + Duration(world_.draw_chance(50) ? world_.draw(0, 1'000'000)
                                                       : world_.draw(800'000, 3'000'000));
    world_.at(time, [this] { strike(); });
  }

  void strike() {
    const auto rank = static_cast<int>(world_.draw(0, ranks_ - 1));
    const auto other = (rank + static_cast<int>(world_.draw(1, ranks_ - 1))) % ranks_;
    const bool is_at_work = !outcomes_[static_cast<std::size_t>(rank)].has_ended;
    switch (fault_) {
      case Fault::none:
        return;
      case Fault::kill:
      case Fault::power_off:
        if (!is_at_work) return;
        fault_ == Fault::kill ? world_.kill(rank) : world_.power_off(rank);
        gone_.insert(rank);
        to_blame_ = {rank};
        return;
      case Fault::stall:
        if (!is_at_work) return;
        // A short one must not be noticed.
        is_short_ = world_.draw_chance(40);
        world_.stall(rank, is_short_ ? Duration(world_.draw(1, 1'000'000))
                                     : Duration(world_.draw(4'500'000, 20'000'000)));
        if (!is_short_) to_blame_ = {rank};
        return;
      case Fault::partition:
        world_.partition(rank, other);
        to_blame_ = {rank, other};
        return;
      case Fault::cut: {
        const std::vector<int> cut = world_.cut_connection();
        if (!cut.empty() && cut[0] < ranks_ && cut[1] < ranks_) to_blame_ = {cut[0], cut[1]};
        return;
      }
      case Fault::flip:
        return world_.flip_bit(ranks_, [this](int a, int b) { to_blame_ = {a, b}; });
    }
  }

  std::string what_is_wrong_with(int rank) const {
    const Outcome& outcome = outcomes_[static_cast<std::size_t>(rank)];
    if (gone_.contains(rank)) return "";
    if (!outcome.has_ended) return fmt::format("rank {} hangs", rank);
    if (!outcome.wrong.empty()) return fmt::format("rank {}: {}", rank, outcome.wrong);
    if (outcome.is_right) return "";
    if (to_blame_.empty())
      return fmt::format("rank {} fails without a fault: {}", rank, outcome.error);
    const std::set<int> accused = accused_by(rank, outcome.error);
    if (accused.empty()) return fmt::format("rank {} names nobody: {}", rank, outcome.error);
    // Where several wait, as far as they have told, one of them is to blame.
    if (error_names_several(outcome.error) &&
        std::ranges::any_of(accused, [&](int each) { return to_blame_.contains(each); }))
      return "";
    for (const int each : accused)
      if (!to_blame_.contains(each) && !is_gone_for_others(rank, each, outcome.error))
        return fmt::format("rank {} accuses rank {}: {}", rank, each, outcome.error);
    return "";
  }

  static bool error_names_several(const std::string& error) {
    static const std::regex several("waited 6000 ms for rank\\(s\\) \\d+,");
    return std::regex_search(error, several);
  }

  /// Rank 0 has ended because of another one, before this rank came to it; or a rank that was
  /// stopped, or cut off, finds that others have ended.
  bool is_gone_for_others(int rank, int accused, const std::string& error) const {
    const Outcome& other = outcomes_[static_cast<std::size_t>(accused)];
    if (to_blame_.contains(rank) && accused != rank && !other.error.empty() &&
        other.ended_at <= outcomes_[static_cast<std::size_t>(rank)].ended_at)
      return true;
    // Who did not come to it is rank 0's word.
    if (to_blame_.contains(0) && (error.find("did not come to") != std::string::npos ||
                                  error.find("left before all") != std::string::npos))
      return true;
    return accused == 0 && !outcomes_[0].error.empty() &&
           (error.find("nobody answers") != std::string::npos ||
            error.find("closed the connection") != std::string::npos);
  }

  std::mt19937_64 shape_;
  int ranks_;
  std::vector<Step> steps_;
  std::vector<Outcome> outcomes_;
  bool has_strangers_ = false;
  Fault fault_ = Fault::none;
  bool is_short_ = false;
  std::set<int> to_blame_;  ///< once the fault has struck
  std::set<int> gone_;
  SimulatedWorld world_;  ///< goes first: what is left on its stacks needs the rest
};

}  // namespace
}  // namespace autopar::simulation

/// protocol_simulation [SCHEDULES [FIRST_SEED]]; AUTOPAR_SEED runs one again.
int main(int argc, char** argv) {
  using namespace autopar::simulation;
  spdlog::set_level(spdlog::level::off);
  std::uint64_t schedules = argc > 1 ? std::stoull(argv[1]) : 1000;
  std::uint64_t first = argc > 2 ? std::stoull(argv[2]) : 1;
  const char* const again = std::getenv("AUTOPAR_SEED");
  if (again != nullptr) {
    first = std::stoull(again);
    schedules = 1;
  }
  std::map<Fault, int> struck;
  std::map<Fault, int> failed;
  int right = 0;
  int wrong = 0;
  for (std::uint64_t seed = first; seed < first + schedules && wrong < 5; ++seed) {
    Schedule schedule(seed);
    const std::string what = schedule.check();
    if (!what.empty()) {
      ++wrong;
      fmt::print("seed {}: {}\n", seed, what);
    }
    if (!what.empty() || again != nullptr) schedule.print();
    if (schedule.is_right()) ++right;
    if (schedule.has_struck()) ++struck[schedule.fault()];
    if (schedule.has_struck() && !schedule.is_right()) ++failed[schedule.fault()];
  }
  fmt::print("{} schedules: {} with right results, {} not as they must be\n", schedules, right,
             wrong);
  bool is_vacuous = false;
  for (const Fault fault :
       {Fault::kill, Fault::power_off, Fault::stall, Fault::partition, Fault::cut, Fault::flip}) {
    fmt::print("  {}: {} have struck, {} ended ranks\n",
               names_of_faults[static_cast<std::size_t>(fault)], struck[fault], failed[fault]);
    is_vacuous |= schedules >= 1000 && failed[fault] < static_cast<int>(schedules / 200);
  }
  if (is_vacuous) fmt::print("too few schedules have met a fault\n");
  return wrong > 0 || is_vacuous ? 1 : 0;
}
