#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <vector>

#include "bundle/meta_info.h"
#include "runtime/named_tensors.h"
#include "runtime/shape_source.h"

namespace autopar::runtime {

/// The shapes that a session knows, by number: those of the bundle's profiles, 0 the first one's,
/// and those that were made and are kept. What it decides follows from the inputs of all runs, so
/// that it is the same in each process.
class ShapeCache {
 public:
  /// `info` must outlive it.
  ShapeCache(const bundle::MetaInfo& info, const std::filesystem::path& bundle_dir,
             const SessionOptions& options);

  /// The number of the shape that all inputs have together, which is made where no profile has it
  /// and it is not kept. The first profile's where no other can be made. Throws Error, all at once,
  /// for given inputs that are missing, superfluous or of another type, and for shapes that the
  /// model forbids.
  std::size_t find(const InputShapes& shapes, const NamedTensors& inputs, const LoopOptions& loop);
  const ShapedProgram& program(std::size_t shape) const { return known_.at(shape).program; }
  /// Says that the shape was run, with arenas of so many bytes on the fullest rank. Returns the
  /// shapes that are kept no longer.
  std::vector<std::size_t> keep(std::size_t shape, std::int64_t arena_bytes);
  /// Says that ranks have dropped all that they had compiled. The numbers of shapes may be others.
  void drop_all();

 private:
  struct KnownShape {
    InputShapes inputs;
    ShapedProgram program;
    std::int64_t arena_bytes = 0;  ///< on the fullest rank; 0 where no rank has it compiled
    std::int64_t last_run = 0;     ///< runs are numbered
  };

  using Known = std::map<std::size_t, KnownShape>;

  bool is_profile(std::size_t shape) const { return shape < info_.profiles.size(); }
  /// No rank has it compiled any more; a profile stays known. Returns the next one.
  Known::iterator forget(Known::iterator shape);

  const bundle::MetaInfo& info_;
  ShapeSource source_;
  std::int64_t most_bytes_;
  Known known_;
  std::map<InputShapes, std::size_t> numbers_;
  std::size_t next_number_ = 0;
  std::int64_t runs_ = 0;
};

}  // namespace autopar::runtime
