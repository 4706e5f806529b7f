#include <set>
#include <system_error>

#include "base/file_digest.h"
#include "base/problems.h"
#include "bundle/meta_info.h"

namespace autopar::bundle {

namespace {

namespace fs = std::filesystem;

void check_file(const FileInfo& info, const fs::path& file) {
  std::error_code error;
  const auto bytes = fs::file_size(file, error);
  if (error) fail("{} is missing from the bundle; partition the model again", file.string());
  if (bytes != info.bytes) {
    fail("{} has {} bytes but was written with {}; partition the model again", file.string(), bytes,
         info.bytes);
  }
  if (xxh3_of_file(file) != info.xxh3) {
    fail("{} was changed after it was written; partition the model again", file.string());
  }
}

bool looks_like_shard(const fs::path& file) {
  return file.filename().string().starts_with("rank") &&
         (file.extension() == ".onnx" || file.extension() == ".data");
}

}  // namespace

void check_files(const MetaInfo& info, const fs::path& bundle_dir, int rank) {
  std::set<std::string> known;
  Problems problems;
  for (const RankInfo& of_rank : info.ranks) {
    for (const FileInfo& file : of_rank.files) {
      known.insert(file.name);
      if (rank < 0 || rank == of_rank.rank)
        problems.collect([&] { check_file(file, bundle_dir / file.name); });
    }
  }
  for (const auto& entry : fs::directory_iterator(bundle_dir)) {
    if (looks_like_shard(entry.path()) && !known.contains(entry.path().filename().string())) {
      problems.add("{} is no file of this bundle; remove it or partition the model again",
                   entry.path().string());
    }
  }
  problems.throw_if_any();
}

void check_common_files(std::span<const FileInfo> files, const fs::path& bundle_dir) {
  for (const FileInfo& file : files) check_file(file, bundle_dir / file.name);
}

}  // namespace autopar::bundle
