// Two ranks meet and compute over a simulated network. The input says what one of them sends
// otherwise than it should, though it has proven to be a rank, and what a stranger sends to both.
//
// Bytes: a seed of delays; the number of the rank that is edited (its lowest bit), then records of
// a kind, a number of a connection, an offset (two bytes), a length and that many bytes.

#include <stdexcept>
#include <string>

#include "base/error.h"
#include "edited_network.h"
#include "fuzzer.h"
#include "runtime/comm/socket.h"
#include "runtime/comm/tcp_communicator.h"
#include "simulation/simulated_network.h"

namespace autopar::fuzz {
namespace {

using namespace std::chrono_literals;
using runtime::HostCommunicator;
using simulation::SimulatedWorld;

constexpr int ranks = 2;
constexpr int stranger = ranks;
constexpr std::uint16_t meeting_port = 29500;
constexpr std::uint16_t first_free_port = 20000;  // that a simulated machine gives
constexpr auto timeout = 3s;
constexpr auto longest = std::chrono::seconds(120);  // of the simulated clock
constexpr std::size_t most_records = 16;

/// What a stranger sends, to a port that is told by a small number.
struct Visit {
  std::size_t place = 0;
  std::vector<std::byte> bytes;
};

struct Script {
  std::uint64_t seed = 0;
  int edited_rank = 0;
  std::vector<StreamEdit> edits;
  std::vector<Visit> visits;
};

class InputReader {
 public:
  explicit InputReader(Bytes input) : rest_(input) {}

  std::size_t number() {
    if (rest_.empty()) return 0;
    const auto first = std::to_integer<std::size_t>(rest_.front());
    rest_ = rest_.subspan(1);
    return first;
  }
  std::vector<std::byte> bytes(std::size_t most) {
    const Bytes taken = rest_.first(std::min(most, rest_.size()));
    rest_ = rest_.subspan(taken.size());
    return {taken.begin(), taken.end()};
  }
  bool is_at_end() const { return rest_.empty(); }

 private:
  Bytes rest_;
};

Script script_of(Bytes input) {
  InputReader reader(input);
  Script script;
  script.seed = reader.number();
  script.edited_rank = static_cast<int>(reader.number() % ranks);
  for (std::size_t i = 0; i < most_records && !reader.is_at_end(); ++i) {
    const std::size_t kind = reader.number() % 4;
    const std::size_t connection = reader.number();
    const std::size_t low = reader.number();
    const std::size_t offset = low + 256 * reader.number();
    std::vector<std::byte> bytes = reader.bytes(reader.number());
    if (kind == 3)
      script.visits.push_back({connection, std::move(bytes)});
    else
      script.edits.push_back(
          {static_cast<StreamEdit::Kind>(kind), connection, offset, std::move(bytes)});
  }
  return script;
}

/// A peer that has proven to be a rank may lie about numbers; nobody else can.
struct WrongResult {};

std::byte* bytes_of(std::vector<float>& values) {
  return reinterpret_cast<std::byte*>(values.data());
}

runtime::Rendezvous rendezvous_of(int rank, runtime::Network& network) {
  runtime::Rendezvous rendezvous;
  rendezvous.rank = rank;
  rendezvous.size = ranks;
  rendezvous.meeting_point.host = "10.0.0.1";
  rendezvous.meeting_point.port = meeting_port;
  rendezvous.bundle_digest = "0123456789abcdef";
  rendezvous.secret = "a secret of the simulation";
  rendezvous.timeout = timeout;
  rendezvous.network = &network;
  return rendezvous;
}

void compute(HostCommunicator& world) {
  const int other = 1 - world.rank();
  std::vector<float> values(20, 1.0F);
  world.barrier();
  world.all_reduce(bytes_of(values), bytes_of(values), 20, graph::DataType::float32,
                   runtime::ReduceOp::sum);
  if (world.rank() == 0) world.send(bytes_of(values), 80, other);
  if (world.rank() == 1) world.receive(bytes_of(values), 80, other);
  if (world.rank() == 1) world.send(bytes_of(values), 80, other);
  if (world.rank() == 0) world.receive(bytes_of(values), 80, other);
  world.broadcast(bytes_of(values), 40, 1);
  std::vector<float> all(40);
  world.all_gather(bytes_of(values), bytes_of(all), std::vector<std::int64_t>{80, 80});
  for (const float value : all)
    if (value != 2.0F) throw WrongResult();
}

class Trial {
 public:
  explicit Trial(Bytes input) : script_(script_of(input)), world_(script_.seed, ranks + 1) {}

  void run() {
    EditedNetwork edited(world_.network(script_.edited_rank), script_.edits);
    for (int rank = 0; rank < ranks; ++rank)
      world_.start(rank, world_.now(), [this, rank, &edited] {
        run_rank(rank, rank == script_.edited_rank ? edited : world_.network(rank));
      });
    world_.start(stranger, world_.now(), [this] { visit(world_.network(stranger)); });
    if (!world_.run(world_.now() + longest)) throw std::logic_error("somebody hangs");
    if (!finding_.empty()) throw std::logic_error(finding_);
    if (!error_.empty()) throw Error(error_);
  }

 private:
  void run_rank(int rank, runtime::Network& network) {
    try {
      const auto communicator = runtime::make_tcp_communicator(rendezvous_of(rank, network));
      compute(*communicator);
    } catch (const Error& error) {
      error_ = error.what();
      if (script_.edits.empty()) finding_ = "a stranger ends the world: " + error_;
    } catch (const WrongResult&) {
      if (script_.edits.empty()) finding_ = "a collective has a wrong result";
    } catch (const std::exception& error) {
      finding_ = std::string("no Error, but ") + error.what();
    }
  }

  /// Where ranks listen: rank 0 at the rendezvous, and both at ports that they are given.
  static runtime::SocketAddress address_of(std::size_t place) {
    const auto machine = static_cast<int>(place % ranks);
    const auto port = static_cast<std::uint16_t>(first_free_port + place / ranks);
    return SimulatedWorld::address_of(machine, machine == 0 ? meeting_port : port);
  }

  void visit(runtime::Network& network) {
    std::vector<runtime::Socket> kept;
    for (const Visit& each : script_.visits) {
      const runtime::Deadline soon = network.now() + 20ms;
      runtime::Connected made = connect_to(network, address_of(each.place), soon);
      if (!made.socket.is_open()) continue;
      send_all(made.socket, each.bytes, soon);
      kept.push_back(std::move(made.socket));
    }
    network.sleep_until(network.now() + timeout);
  }

  const Script script_;
  std::string error_;     ///< that a rank ended with
  std::string finding_;   ///< what must not be
  SimulatedWorld world_;  ///< goes first: what is left on its stacks needs the rest
};

}  // namespace

void try_input(Bytes input) { Trial(input).run(); }

}  // namespace autopar::fuzz
