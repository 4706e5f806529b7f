#pragma once

#include <string>
#include <vector>

#include "command_texts.h"

namespace autopar {

/// Shells that completion() knows.
std::vector<std::string> completed_shells();
/// A script that completes the program's commands and options in a shell.
std::string completion(const CommandText& program, const std::string& shell);

}  // namespace autopar
