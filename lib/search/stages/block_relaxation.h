#pragma once

#include <vector>

#include "search/stages/stage_facts.h"

namespace autopar::search {

/// The first term of bounds by blocks (block_bounds.h): the problem of a run of layers on one view.
struct Block {
  int begin;
  int end;
  int view;
  bool is_first;  ///< of its stage: what arrives is priced
};

/// By value of the block's graph: whether other layers read it, too.
using SharedFlags = std::vector<bool>;
SharedFlags shared_flags(const StageFacts& facts, int begin, int end);

/// No part of a stage's plan that falls to the block costs less, where a byte of weights costs
/// `price`; `-impossible` where nothing is known.
assignment::Cost relaxed_bound(const StageFacts& facts, const Block& block, double price,
                               double seconds_left);

/// The price of a byte of weights under which a layer of the most frequent kind has the greatest
/// bound; 0 where weights are not limited.
double price_of_weights(const StageFacts& facts, int view, double seconds_left);

}  // namespace autopar::search
