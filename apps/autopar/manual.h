#pragma once

#include <string>

#include "command_texts.h"

namespace autopar {

/// The manual page of the program and its commands, for man: text in roff.
std::string manual(const CommandText& program, const std::string& version);

}  // namespace autopar
