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

/// Whether it is named as a file of a rank, the structure or the tail is.
bool looks_like_model(const fs::path& file) {
  const std::string name = file.filename();
  const bool is_of_bundle =
      name.starts_with("rank") || name.starts_with("structure.") || name.starts_with("tail.");
  return is_of_bundle && (file.extension() == ".onnx" || file.extension() == ".data");
}

}  // namespace

void check_files(const MetaInfo& info, const fs::path& bundle_dir, int rank) {
  std::set<std::string> known;
  for (const FileInfo& file : info.structure) known.insert(file.name);
  if (info.tail)
    for (const FileInfo& file : info.tail->files) known.insert(file.name);
  Problems problems;
  for (const RankInfo& of_rank : info.ranks) {
    for (const FileInfo& file : of_rank.files) {
      known.insert(file.name);
      if (rank < 0 || rank == of_rank.rank)
        problems.collect([&] { check_file(file, bundle_dir / file.name); });
    }
  }
  for (const auto& entry : fs::directory_iterator(bundle_dir)) {
    if (looks_like_model(entry.path()) && !known.contains(entry.path().filename().string())) {
      problems.add("{} is no file of this bundle; remove it or partition the model again",
                   entry.path().string());
    }
  }
  problems.throw_if_any();
}

void check_common_files(std::span<const FileInfo> files, const fs::path& bundle_dir) {
  for (const FileInfo& file : files) check_file(file, bundle_dir / file.name);
}

void check_all_files(const MetaInfo& info, const fs::path& bundle_dir) {
  Problems problems;
  problems.collect([&] { check_files(info, bundle_dir); });
  problems.collect([&] { check_common_files(info.files, bundle_dir); });
  problems.collect([&] { check_common_files(info.structure, bundle_dir); });
  if (info.tail) problems.collect([&] { check_common_files(info.tail->files, bundle_dir); });
  problems.throw_if_any();
}

}  // namespace autopar::bundle
