#pragma once

#include <filesystem>
#include <span>
#include <string_view>

#include "base/partial_file.h"

namespace autopar {

/// A file that is written beside its place ("x.json.partial-...") and moved there when it is whole
/// and on its disk: the place has what it had, or all of the new file. A link at the place is
/// replaced, not what it leads to, and the mode of a file that is replaced is kept. A device or a
/// pipe at the place (/dev/stdout) is written as it is. Every failure is an Error that names the
/// file.
class WholeFile {
 public:
  /// Sweeps away what dead processes left of such a file.
  explicit WholeFile(std::filesystem::path place);
  ~WholeFile();
  WholeFile(const WholeFile&) = delete;
  WholeFile& operator=(const WholeFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);

  /// Takes the place, from another file, too. Nothing may be written afterwards.
  void publish();
  /// Takes the place if it is free, else throws Error.
  void publish_new();

 private:
  /// Whether there is a file to be moved: it is whole then, and on its disk.
  bool finish();

  std::filesystem::path place_;
  PartialFile partial_;  ///< without a path where the place is written as it is
};

/// Writes a whole file.
void write_file(const std::filesystem::path& place, std::string_view text);

}  // namespace autopar
