#pragma once

#include <map>
#include <string>

#include "graph/tensor.h"

namespace autopar::runtime {

using NamedTensors = std::map<std::string, graph::Tensor>;

}  // namespace autopar::runtime
