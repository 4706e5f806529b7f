#include "search/stages/block_bounds.h"

#include <algorithm>
#include <set>

#include "assignment/saturating.h"
#include "search/stages/in_parallel.h"

namespace autopar::search {

namespace {

using assignment::Cost;
using assignment::impossible;

/// Blocks of a length are solved where no more than so many differ, besides single layers.
constexpr int most_kinds_of_blocks = 8;

Cost sum_of_bounds(Cost a, Cost b) {
  return a <= -impossible || b <= -impossible ? -impossible : assignment::plus(a, b);
}

}  // namespace

Cost BlockBounds::of(int view, int begin, int end) const {
  const View& on = views_[view];
  return on.first.empty() ? -impossible : on.first[facts_.place(begin, end)];
}

bool BlockBounds::is_worth_refining(int view, int level) const {
  if (facts_.options.method != SearchMethod::ilp ||
      facts_.views[view].model.mesh().num_devices() == 1)
    return false;
  if (level == 0) return true;
  std::set<int> kinds;
  const int length = 1 << level;
  for (int begin = 0; begin + length <= facts_.layers(); ++begin)
    kinds.insert(facts_.classes.of(begin, begin + length));
  return static_cast<int>(kinds.size()) <= most_kinds_of_blocks;
}

void BlockBounds::refine(const std::map<int, int>& levels, const assignment::Deadline& deadline) {
  std::vector<int> fresh;
  for (const auto& [view, level] : levels) {
    if (views_[view].inner.empty()) fresh.push_back(view);
  }
  in_parallel(fresh.size(),
              [&](std::size_t i) { views_[fresh[i]] = begun(fresh[i], deadline.left()); });
  std::map<Key, Block> wanted;
  std::map<std::pair<int, int>, SharedFlags> flags;
  std::vector<std::pair<Block, Key>> blocks;
  for (const auto& [view, level] : levels) {
    const int length = 1 << level;
    for (int begin = 0; begin + length <= facts_.layers(); ++begin) {
      const int kind = facts_.classes.of(begin, begin + length);
      if (!facts_.flows_alike[kind]) continue;
      auto& shared = flags[{begin, length}];
      if (shared.empty()) shared = shared_flags(facts_, begin, begin + length);
      for (const bool is_first : {false, true}) {
        const Block block{begin, begin + length, view, is_first};
        Key key{kind, view, is_first, shared};
        if (!solved_.contains(key)) wanted.try_emplace(key, block);
        blocks.emplace_back(block, std::move(key));
      }
    }
  }
  const std::vector<std::pair<Key, Block>> jobs(wanted.begin(), wanted.end());
  std::vector<Cost> bounds(jobs.size(), 0);
  in_parallel(jobs.size(), [&](std::size_t i) {
    const Block& block = jobs[i].second;
    bounds[i] = relaxed_bound(facts_, block, views_[block.view].price, deadline.left());
  });
  for (std::size_t i = 0; i < jobs.size(); ++i) solved_.emplace(jobs[i].first, bounds[i]);
  for (const auto& [block, key] : blocks) {
    View& on = views_[block.view];
    Cost& bound = (block.is_first ? on.first : on.inner)[facts_.place(block.begin, block.end)];
    bound = std::max(bound, solved_.at(key));
  }
  for (const auto& [view, level] : levels) {
    views_[view].level = std::max(views_[view].level, level);
    compose(views_[view]);
  }
}

/// A view's bounds by operators alone.
BlockBounds::View BlockBounds::begun(int view, double seconds_left) const {
  View begun;
  begun.price = price_of_weights(facts_, view, seconds_left);
  begun.inner.assign(facts_.cuts.size() * facts_.cuts.size(), -impossible);
  if (begun.price == 0) {
    const std::vector<Cost>& operators = facts_.operator_bounds[facts_.views[view].size];
    for (int layer = 0; layer < facts_.layers(); ++layer)
      begun.inner[facts_.place(layer, layer + 1)] = operators[layer + 1] - operators[layer];
  }
  begun.first = begun.inner;
  return begun;
}

/// The best partition of every run into blocks that are known.
void BlockBounds::compose(View& view) const {
  for (int length = 2; length <= facts_.layers(); ++length) {
    for (int begin = 0; begin + length <= facts_.layers(); ++begin) {
      const int end = begin + length;
      if (!facts_.flows_alike[facts_.classes.of(begin, end)]) continue;
      Cost& inner = view.inner[facts_.place(begin, end)];
      Cost& first = view.first[facts_.place(begin, end)];
      for (int between = begin + 1; between < end; ++between) {
        const Cost rest = view.inner[facts_.place(between, end)];
        inner = std::max(inner, sum_of_bounds(view.inner[facts_.place(begin, between)], rest));
        first = std::max(first, sum_of_bounds(view.first[facts_.place(begin, between)], rest));
      }
    }
  }
}

}  // namespace autopar::search
