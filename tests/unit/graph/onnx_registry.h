#pragma once

#include "graph/onnx/collective_schemas.h"
#include "graph/onnx/schema_registry.h"
#include "graph/own_operators.h"

namespace autopar::graph {

/// Tells ONNX's own registry of the collectives; its checker asks no other.
inline void tell_onnx_of_collectives() {
  static const bool told = [] {
    register_collective_schemas();
    for (const char* op_type :
         {"AllReduce", "AllGather", "ReduceScatter", "AllToAll", "Broadcast", "Send", "Recv"})
      onnx::RegisterSchema(
          *SchemaRegistry::instance().GetSchema(op_type, 1, std::string(collective_domain)));
    return true;
  }();
  (void)told;
}

}  // namespace autopar::graph
