#include "runtime/shape_cache.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "runtime/load_shard.h"
#include "runtime/step_loop.h"

namespace autopar::runtime {
namespace {

InputShapes shapes_of(const NamedTensors& inputs) {
  InputShapes shapes;
  for (const auto& [name, tensor] : inputs) shapes.emplace(name, tensor.shape());
  return shapes;
}

InputShapes shapes_of(const bundle::ProfileInfo& profile) {
  InputShapes shapes;
  for (const bundle::PortInfo& port : profile.inputs) shapes.emplace(port.name, port.shape);
  return shapes;
}

bool fits(const bundle::MetaInfo& info, const bundle::ProfileInfo& profile,
          const NamedTensors& inputs, const LoopOptions& loop) {
  try {
    check_inputs(info, profile, inputs, loop);
  } catch (const Error&) {
    return false;
  }
  return true;
}

}  // namespace

ShapeCache::ShapeCache(const bundle::MetaInfo& info, const std::filesystem::path& bundle_dir,
                       const SessionOptions& options)
    : info_(info), source_(options.shapes), most_bytes_(options.shape_cache_bytes) {
  for (const bundle::ProfileInfo& profile : info.profiles) {
    const std::size_t number = next_number_++;
    const auto shard = [&info, bundle_dir, number](int rank) {
      return load_shard(info, number, bundle_dir, rank);
    };
    InputShapes shapes = shapes_of(profile);
    numbers_.emplace(shapes, number);
    known_.emplace(number, KnownShape{std::move(shapes), {profile, shard, {}}});
  }
}

std::size_t ShapeCache::find(const NamedTensors& inputs, const LoopOptions& loop) {
  if (loop.is_loop()) {  // what inputs look like depends on the steps
    for (std::size_t p = 0; p < info_.profiles.size(); ++p)
      if (fits(info_, info_.profiles[p], inputs, loop)) return p;
    return 0;
  }
  InputShapes shapes = shapes_of(inputs);
  if (const auto known = numbers_.find(shapes); known != numbers_.end()) return known->second;
  if (!source_) return 0;
  check_inputs(info_, info_.profiles.front(), inputs, loop, {}, Extents::any);
  ShapedProgram program = source_(shapes);
  const std::size_t number = next_number_++;
  numbers_.emplace(shapes, number);
  known_.emplace(number, KnownShape{std::move(shapes), std::move(program)});
  return number;
}

std::vector<std::size_t> ShapeCache::keep(std::size_t shape, std::int64_t arena_bytes) {
  KnownShape& used = known_.at(shape);
  used.arena_bytes = arena_bytes;
  used.last_run = ++runs_;
  if (!is_profile(shape)) used.program.shard = {};  // it is compiled, and is made anew if dropped
  std::int64_t kept_bytes = 0;
  for (const auto& [number, each] : known_) kept_bytes += each.arena_bytes;
  std::vector<std::size_t> dropped;
  while (kept_bytes > most_bytes_) {
    auto oldest = known_.end();
    for (auto each = known_.begin(); each != known_.end(); ++each) {
      const bool has_states = is_profile(each->first) && !info_.states.empty();
      if (each->first == shape || each->second.arena_bytes == 0 || has_states) continue;
      if (oldest == known_.end() || each->second.last_run < oldest->second.last_run) oldest = each;
    }
    if (oldest == known_.end()) break;
    kept_bytes -= std::exchange(oldest->second.arena_bytes, 0);
    dropped.push_back(oldest->first);
    if (is_profile(oldest->first)) continue;
    numbers_.erase(oldest->second.inputs);
    known_.erase(oldest);
  }
  return dropped;
}

}  // namespace autopar::runtime
