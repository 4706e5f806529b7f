#pragma once

#include <map>
#include <string>
#include <vector>

#include "bundle/meta_info.h"
#include "runtime/named_tensors.h"

namespace autopar::runtime {

/// One rank's parts of the inputs: by name, then by microbatch; one where all have the same.
using InputParts = std::map<std::string, std::vector<graph::Tensor>>;

/// The parts of those ports that `inputs` has and the rank, too. A microbatch that is short of rows
/// has copies of its last one.
InputParts parts_of(const bundle::MetaInfo& info, const bundle::ProfileInfo& profile,
                    const NamedTensors& inputs, int rank);

/// What a run reads from the ranks: the microbatches of an output that are not dropped.
std::vector<int> microbatches_read(const bundle::MetaInfo& info, const bundle::PortInfo& port);

/// Writes one rank's part of a microbatch's output to its place in the whole batch's.
void place_output(const bundle::PortInfo& port, const std::vector<graph::Range>& ranges,
                  int microbatch, const graph::Tensor& part, graph::Tensor& whole);

}  // namespace autopar::runtime
