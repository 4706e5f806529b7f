#include <spdlog/spdlog.h>

#include <algorithm>
#include <exception>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "fuzzer.h"

/// replay FOLDER: hands every file of a fuzzer's corpus to the fuzzer, without libFuzzer. Says
/// which one it is at, so that a crash names it. Exits with 1 where there is a finding, or no file.
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> files_of(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

std::string contents_of(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

/// Whether the file makes no finding.
bool replay(const fs::path& file) {
  const std::string contents = contents_of(file);
  std::cout << file.filename().string() << ": " << std::flush;
  try {
    const bool accepted = autopar::fuzz::accepts(std::as_bytes(std::span(contents)));
    std::cout << (accepted ? "accepted" : "refused") << std::endl;
    return true;
  } catch (const std::exception& finding) {
    std::cout << "finding: " << finding.what() << std::endl;
    return false;
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: " << argv[0] << " FOLDER\n";
    return 2;
  }
  spdlog::set_level(spdlog::level::off);
  const std::vector<fs::path> files = files_of(argv[1]);
  const auto findings =
      std::ranges::count_if(files, [](const auto& file) { return !replay(file); });
  std::cout << files.size() << " files, " << findings << " findings\n";
  return files.empty() || findings > 0 ? 1 : 0;
}
