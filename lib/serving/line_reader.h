#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "base/error.h"

namespace autopar::serving {

/// Lines of a file or of standard input, each as soon as it has come.
class LineReader {
 public:
  /// "-" is standard input. Throws Error where the file cannot be read.
  explicit LineReader(const std::filesystem::path& file);
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  /// The next line without its end, which the last one may lack; nullopt behind it. Calls
  /// `while_waiting` a few times a second as long as nothing comes.
  std::optional<std::string> next(const std::function<void()>& while_waiting);

 private:
  std::filesystem::path file_;
  int descriptor_;
  std::string read_;          ///< and not yet given
  std::size_t searched_ = 0;  ///< of it, without a line's end
};

}  // namespace autopar::serving
