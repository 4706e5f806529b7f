#include "runtime/shape_cache.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "runtime/load_shard.h"
#include "runtime/step_loop.h"

namespace autopar::runtime {
namespace {

InputShapes shapes_of(const bundle::ProfileInfo& profile) {
  InputShapes shapes;
  for (const bundle::PortInfo& port : profile.inputs) shapes.emplace(port.name, port.shape);
  return shapes;
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

std::size_t ShapeCache::find(const InputShapes& shapes, const NamedTensors& inputs,
                             const LoopOptions& loop) {
  if (const auto known = numbers_.find(shapes); known != numbers_.end()) return known->second;
  if (!source_) return 0;
  check_inputs(info_, info_.profiles.front(), inputs, loop, {.extents = Extents::any});
  ShapedProgram program = source_(shapes);
  const std::size_t number = next_number_++;
  numbers_.emplace(shapes, number);
  known_.emplace(number, KnownShape{shapes, std::move(program)});
  return number;
}

ShapeCache::Known::iterator ShapeCache::forget(Known::iterator shape) {
  shape->second.arena_bytes = 0;
  if (is_profile(shape->first)) return std::next(shape);
  numbers_.erase(shape->second.inputs);
  return known_.erase(shape);
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
      if (each->first == shape || each->second.arena_bytes == 0) continue;
      if (oldest == known_.end() || each->second.last_run < oldest->second.last_run) oldest = each;
    }
    if (oldest == known_.end()) break;
    kept_bytes -= oldest->second.arena_bytes;
    dropped.push_back(oldest->first);
    forget(oldest);
  }
  return dropped;
}

void ShapeCache::drop_all() {
  for (auto each = known_.begin(); each != known_.end();)
    each = each->second.last_run > 0 ? forget(each) : std::next(each);
}

}  // namespace autopar::runtime
