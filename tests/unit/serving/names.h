#pragma once

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "graph/tensor.h"

/// What tests of this module name.
namespace autopar::serving {

using Catch::Matchers::Contains;
using graph::DataType;
using graph::Shape;
using graph::Tensor;
using nlohmann::json;

}  // namespace autopar::serving
