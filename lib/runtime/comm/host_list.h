#pragma once

#include <string>

namespace autopar::runtime {

/// The first host of a list as Slurm writes it: "node[01-03,07],login" is node01, node02, node03,
/// node07, login. Throws Error for text that is none.
std::string first_host(const std::string& list);

}  // namespace autopar::runtime
