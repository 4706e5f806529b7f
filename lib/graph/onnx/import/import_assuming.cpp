#include "graph/onnx/import/import_assuming.h"

#include <algorithm>
#include <array>
#include <exception>

#include "graph/onnx/import/assumed_shapes.h"

namespace autopar::graph {
namespace {

/// How ties are looked for. Where limits of the model refuse what is assumed, halves of it come
/// next; last that something is 0 or 1.
struct Way {
  std::int64_t extent = assumed_extent;
  bool may_be_least = false;
};
constexpr std::array<Way, 5> ways = {{{128}, {64}, {32}, {16}, {128, true}}};

/// A mask, a cache and new tokens may fit each other by chance, all being assumed alike.
constexpr std::ptrdiff_t most_without_ties = 2;

/// An import that was tried.
struct Trial {
  BoundInputs bound;
  std::optional<Imported> model;
  std::exception_ptr refusal;  ///< where there is no model
  std::vector<ContradictedOutput> contradicted;

  bool fits() const { return model && contradicted.empty(); }
};

Trial try_import(BoundInputs bound, const ModelReaders& readers) {
  Trial trial{std::move(bound), {}, {}, {}};
  try {
    trial.model = readers.import(trial.bound, trial.contradicted);
  } catch (const LimitReached&) {
    throw;
  } catch (const Error&) {
    trial.refusal = std::current_exception();
  }
  return trial;
}

std::set<std::int64_t> known_extents(const BoundInputs& given) {
  std::set<std::int64_t> known;
  for (const auto& [symbol, bindings] : given.symbols.all())
    for (const auto& [extent, input] : bindings) known.insert(extent);
  return known;
}

bool is_open(const Assumption& each) { return !each.is_batch && each.extent == assumed_extent; }

Assumptions with_extent(Assumptions assumed, std::int64_t extent) {
  for (Assumption& each : assumed)
    if (is_open(each)) each.extent = extent;
  return assumed;
}

/// Whether what is no sum has what was assumed of it.
bool are_sums(const Assumptions& tied, const Assumptions& assumed) {
  return std::ranges::equal(tied, assumed, [](const Assumption& a, const Assumption& b) {
    return !a.formula.empty() || a.extent == b.extent;
  });
}

bool is_better(const Trial& tied, const Trial& trial) {
  if (!tied.model || !trial.model) return tied.model.has_value();
  if (trial.fits()) return tied.fits() && are_sums(tied.bound.assumed, trial.bound.assumed);
  return tied.contradicted.size() < trial.contradicted.size();
}

/// Throws why an import refused; with what to give where the assumptions may be at fault, which
/// they are not where a shape depends on values.
[[noreturn]] void refuse(const onnx::GraphProto& graph, const BoundInputs& given,
                         const Trial& trial, bool may_be_to_blame, const std::string& where) {
  try {
    std::rethrow_exception(trial.refusal);
  } catch (const UnknownShape&) {
    throw;
  } catch (const Error& reason) {
    if (!may_be_to_blame) throw;
    refuse_assumed(graph, given, trial.bound.assumed, reason, where);
  }
}

}  // namespace

Imported import_assuming(const onnx::GraphProto& graph, const BoundInputs& given,
                         const std::string& where, const ModelReaders& readers) {
  const auto bound_with = [&](const Assumptions& assumed) {
    return with_assumed(graph, given, assumed);
  };
  const auto attempt = [&](const Assumptions& assumed) {
    return readers.attempt(bound_with(assumed));
  };
  Trial trial = try_import(bound_with(given.assumed), readers);
  const auto open = std::ranges::count_if(given.assumed, is_open);
  bool goes_on = open > (trial.fits() ? most_without_ties : 0);
  bool may_be_to_blame = goes_on;
  for (const auto& [extent, may_be_least] : ways) {
    if (!goes_on) break;
    const Ties ties = tie_extents(with_extent(given.assumed, extent),
                                  {extent, may_be_least, known_extents(given)}, attempt);
    if (ties.assumed != given.assumed) {
      Trial tied = try_import(bound_with(ties.assumed), readers);
      // Where nothing fits, the first one tells what else is refused.
      const bool tells_more = !trial.model && extent == assumed_extent && !may_be_least;
      if (tells_more || is_better(tied, trial)) trial = std::move(tied);
    }
    may_be_to_blame = ties.may_be_to_blame;
    goes_on = !trial.model && may_be_to_blame;
  }
  if (trial.model || !may_be_to_blame)
    warn_of_contradictions(graph, trial.bound, trial.contradicted);
  if (!trial.model) refuse(graph, given, trial, may_be_to_blame, where);
  trial.model->assumed = std::move(trial.bound.assumed);
  return *std::move(trial.model);
}

}  // namespace autopar::graph
