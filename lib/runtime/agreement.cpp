#include "runtime/agreement.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/file_digest.h"
#include "base/work_signs.h"
#include "runtime/gather.h"

namespace autopar::runtime {
namespace {

using nlohmann::json;

std::string digest_of(std::span<const std::byte> bytes) {
  constexpr std::size_t piece_bytes = std::size_t{1} << 24;
  Xxh3Stream stream;
  for (; !bytes.empty(); bytes = bytes.subspan(std::min(piece_bytes, bytes.size()))) {
    note_work();
    stream.add(bytes.first(std::min(piece_bytes, bytes.size())));
  }
  return stream.digest();
}

Given flag(std::string name, bool is_given) {
  return {.name = std::move(name),
          .value = is_given ? std::optional<std::string>("") : std::nullopt};
}

Given list(std::string name, const std::vector<std::string>& values) {
  Given given{.name = std::move(name), .value = {}};
  if (!values.empty()) given.value = fmt::format("{}", fmt::join(values, " "));
  return given;
}

const char* name_of(DeviceOptions::Kind kind) {
  if (kind == DeviceOptions::Kind::automatic) return "auto";
  return kind == DeviceOptions::Kind::cpu ? "cpu" : "cuda";
}

json to_json(const std::vector<Given>& given) {
  json all = json::array();
  for (const Given& each : given)
    all.push_back({each.name, each.value ? json(*each.value) : json(), each.digest});
  return all;
}

using ByName = std::map<std::string, Given>;

ByName by_name(const json& given) {
  ByName all;
  for (const json& each : given) {
    Given one{.name = each[0], .value = {}, .digest = each[2]};
    if (!each[1].is_null()) one.value = each[1].get<std::string>();
    all.emplace(one.name, one);
  }
  return all;
}

/// "--steps 4", "no --profile"
std::string text_of(const Given& given) {
  if (!given.value) return "no " + given.name;
  return given.value->empty() ? given.name : given.name + " " + *given.value;
}

std::string difference(const Given& other, int rank, const Given& first) {
  if (first.value == other.value)
    return fmt::format("{} differs between ranks 0 and {}", first.name, rank);
  return fmt::format("rank {} was given {}, rank 0 {}", rank, text_of(other), text_of(first));
}

/// Tells the first rank that differs from rank 0.
std::string differences(const std::vector<json>& all) {
  const auto other = std::ranges::find_if(all, [&](const json& each) { return each != all[0]; });
  if (other == all.end()) return {};
  const auto rank = static_cast<int>(other - all.begin());
  const ByName of_first = by_name(all[0]);
  const ByName of_other = by_name(*other);
  ByName either = of_first;
  either.insert(of_other.begin(), of_other.end());
  std::vector<std::string> texts;
  for (const auto& [name, given] : either) {
    const Given nothing{.name = name, .value = {}};
    const auto first = of_first.find(name);
    const auto second = of_other.find(name);
    const Given& a = first == of_first.end() ? nothing : first->second;
    const Given& b = second == of_other.end() ? nothing : second->second;
    if (a != b) texts.push_back(difference(b, rank, a));
  }
  return fmt::format("{}; give all ranks the same", fmt::join(texts, "; "));
}

}  // namespace

std::vector<Given> given_to_session(const SessionOptions& options,
                                    const std::string& bundle_digest) {
  const DeviceOptions& device = options.device;
  const std::chrono::duration<double> timeout = options.launch.timeout;
  return {{.name = "the bundle", .value = "", .digest = bundle_digest},
          {.name = "the command", .value = options.command},
          {.name = "--timeout", .value = fmt::format("{:g}", timeout.count())},
          {.name = "--device", .value = name_of(device.kind)},
          {.name = "--collectives", .value = device.host_collectives ? "host" : "nccl"},
          flag("--allow-tf32", device.allow_tf32),
          {.name = "--shape-cache", .value = std::to_string(options.shape_cache_bytes)},
          list("--loop", options.states)};
}

std::vector<Given> given_to_run(const NamedTensors& inputs, const RunOptions& options) {
  const LoopOptions& loop = options.loop;
  std::vector<std::string> choices;
  for (const LoopOptions::Choice& choice : loop.choices)
    choices.push_back(choice.output + "=" + choice.input);
  std::vector<Given> given = {
      {.name = "--steps", .value = std::to_string(loop.steps)},
      {.name = "--start", .value = std::to_string(loop.start)},
      {.name = "--repeat", .value = std::to_string(options.repeat)},
      list("--choose", choices),
      flag("--profile", options.profile),
      list("outputs", options.outputs),
      flag("a run that continues", loop.continues),
      {.name = "capacity", .value = std::to_string(loop.capacity)},
      {.name = "past rows",
       .value = loop.past ? std::optional(std::to_string(*loop.past)) : std::nullopt}};
  for (const auto& [name, tensor] : inputs) {
    const graph::Tensor whole = tensor.is_contiguous() ? tensor : tensor.contiguous_copy();
    given.push_back({.name = fmt::format("input '{}'", name),
                     .value = fmt::format("of {} {}", graph::name_of(tensor.type()),
                                          graph::to_string(tensor.shape())),
                     .digest = digest_of(whole.bytes())});
  }
  return given;
}

void require_agreement(const std::vector<Given>& mine, HostCommunicator& world) {
  const json given = to_json(mine);
  const std::string text = given.dump();
  // As a rule nothing differs, and a few bytes tell it.
  std::array<char, 16> digest{};
  std::ranges::copy(digest_of(std::as_bytes(std::span(text))), digest.begin());
  const std::vector<std::array<char, 16>> digests = gather_all(world, digest);
  if (std::ranges::count(digests, digest) == world.size()) return;
  const std::vector<json> all = gather_json(given, world);
  try {
    world.barrier();        // each rank is to know why, before the first one fails
  } catch (const Error&) {  // a rank that was here has failed for the same reason
  }
  throw Error(differences(all));
}

}  // namespace autopar::runtime
