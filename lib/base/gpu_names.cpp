#include "base/gpu_names.h"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <string_view>

namespace autopar {

namespace {

std::string in_lower_case(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char letter) {
    return static_cast<char>(std::tolower(letter));
  });
  return text;
}

bool is_of_word(char letter) { return std::isalnum(static_cast<unsigned char>(letter)) != 0; }

}  // namespace

std::vector<std::string> gpu_names(const std::filesystem::path& root) {
  constexpr std::string_view field = "Model:";
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& gpu :
       std::filesystem::directory_iterator(root / "proc/driver/nvidia/gpus", ignored)) {
    std::ifstream lines(gpu.path() / "information");
    for (std::string line; std::getline(lines, line);) {
      if (!line.starts_with(field)) continue;
      const std::size_t begin = line.find_first_not_of(" \t", field.size());
      if (begin != std::string::npos) names.push_back(line.substr(begin));
    }
  }
  return names;
}

bool is_word_of(const std::string& word, const std::string& name) {
  const std::string wanted = in_lower_case(word);
  const std::string text = in_lower_case(name);
  for (auto begin = text.begin(); begin != text.end();) {
    const auto end = std::find_if_not(begin, text.end(), is_of_word);
    if (std::string(begin, end) == wanted) return true;
    begin = std::find_if(end, text.end(), is_of_word);
  }
  return false;
}

}  // namespace autopar
