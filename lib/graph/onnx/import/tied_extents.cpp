#include "graph/onnx/import/tied_extents.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "base/checked.h"

namespace autopar::graph {
namespace {

constexpr std::size_t most_probes = 7;
/// Ties that are tried for one refused node at most.
constexpr std::size_t most_candidates = 16;

/// An extent as a number and multiples of assumed symbols, by their places. Numbers come from a
/// model's constants, too, and may be any: what no extent can be is cut to the limits of 64 bits.
struct Sum {
  std::int64_t number = 0;
  std::map<std::size_t, std::int64_t> times{};

  bool operator==(const Sum&) const = default;
};

/// Adds the other one so often.
void add(Sum& sum, const Sum& other, std::int64_t often) {
  sum.number = saturated_add(sum.number, saturated_multiply(often, other.number));
  for (const auto& [symbol, times] : other.times) {
    std::int64_t& now = sum.times[symbol];
    now = saturated_add(now, saturated_multiply(often, times));
    if (now == 0) sum.times.erase(symbol);
  }
}

using Extents = std::vector<std::int64_t>;

bool is_prime(std::int64_t number) {
  for (std::int64_t divisor = 2; divisor * divisor <= number; ++divisor)
    if (number % divisor == 0) return false;
  return number > 1;
}

/// The greatest primes below the extent of which no two have the sum of two others, or of one with
/// itself; none is its neighbour, to which 1 is often added.
Extents probes_below(std::int64_t extent) {
  Extents probes;
  std::set<std::int64_t> sums;
  for (std::int64_t number = extent - 2; number > 2 && probes.size() < most_probes; --number) {
    Extents with = probes;
    with.push_back(number);
    const auto is_new = [&](std::int64_t probe) { return !sums.contains(probe + number); };
    if (!is_prime(number) || !std::ranges::all_of(with, is_new)) continue;
    for (const std::int64_t probe : with) sums.insert(probe + number);
    probes = std::move(with);
  }
  return probes;
}

std::int64_t value_of(const Sum& sum, const Extents& extents) {
  std::int64_t value = sum.number;
  for (const auto& [symbol, times] : sum.times)
    value = saturated_add(value, saturated_multiply(times, extents[symbol]));
  return value;
}

std::uint64_t magnitude(std::int64_t number) {
  const auto bits = static_cast<std::uint64_t>(number);
  return number < 0 ? 0 - bits : bits;
}

/// The symbol stands for the sum.
struct Tie {
  std::size_t symbol = 0;
  Sum sum;

  bool operator==(const Tie&) const = default;
  bool subtracts() const {
    return sum.number < 0 ||
           std::ranges::any_of(sum.times, [](const auto& term) { return term.second < 0; });
  }
};

/// Two extents of which one should be the other.
using Disagreement = std::pair<std::int64_t, std::int64_t>;

/// The disagreements of a refused node's shapes: first those of dimensions that stand in one place
/// counted from the last, as element-wise operators and Concat have them; then all others of two
/// shapes.
std::vector<Disagreement> disagreements(const std::vector<Shape>& shapes) {
  std::vector<Disagreement> found;
  const auto add_pair = [&](std::int64_t a, std::int64_t b) {
    if (a != b && std::ranges::find(found, Disagreement(a, b)) == found.end())
      found.emplace_back(a, b);
  };
  const auto for_all_pairs = [&](const auto& step) {
    for (std::size_t i = 0; i < shapes.size(); ++i)
      for (std::size_t j = i + 1; j < shapes.size(); ++j) step(shapes[i], shapes[j]);
  };
  for_all_pairs([&](const Shape& a, const Shape& b) {
    for (std::size_t k = 1; k <= std::min(a.size(), b.size()); ++k)
      add_pair(a[a.size() - k], b[b.size() - k]);
  });
  for_all_pairs([&](const Shape& a, const Shape& b) {
    for (const std::int64_t of_a : a)
      for (const std::int64_t of_b : b) add_pair(of_a, of_b);
  });
  return found;
}

class TieSearch {
 public:
  TieSearch(Assumptions assumed, TieOptions options, const TryExtents& try_extents)
      : assumed_(std::move(assumed)), options_(std::move(options)), try_extents_(try_extents) {
    addends_ = options_.known;
    addends_.insert({1, options_.extent});  // a batch or a new token; what keeps its extent
    ties_.resize(assumed_.size());
    for (const Assumption& each : assumed_) defaults_.push_back(each.extent);
  }

  Ties run() {
    const Attempt probed = search(probe_extents());
    const bool is_probe_given = !probed.is_whole && !symbols_given(probed).empty();
    Attempt last = search(defaults_);
    if (!last.is_whole && drop_numbers()) last = search(defaults_);
    const bool is_assumed_given = probed.is_whole && !last.is_whole && !last.refused.empty();
    return {assumed_with(extents()), is_probe_given || is_assumed_given};
  }

 private:
  /// A batch, and what follows from an extent that was given, are not tied.
  bool is_free(std::size_t symbol) const {
    return !ties_[symbol] && !assumed_[symbol].is_batch && defaults_[symbol] == options_.extent;
  }

  Extents probe_extents() const {
    Extents extents = defaults_;
    const Extents probes = probes_below(options_.extent);
    auto probe = probes.begin();
    for (std::size_t s = 0; s < extents.size() && probe != probes.end(); ++s)
      if (is_free(s)) extents[s] = *probe++;
    return extents;
  }

  /// Adds ties while they help. Returns what becomes of the nodes with all of them.
  Attempt search(const Extents& base) {
    base_ = base;
    Attempt now = attempt();
    for (bool goes_on = true; goes_on && !is_done(now);) goes_on = add_tie(now);
    return now;
  }

  static bool is_done(const Attempt& attempt) {
    return attempt.is_whole && attempt.contradictions.empty();
  }

  static bool is_better(const Attempt& attempt, const Attempt& than) {
    if (!than.is_whole) return attempt.is_whole || attempt.nodes_read > than.nodes_read;
    return attempt.is_whole && attempt.contradictions.size() < than.contradictions.size();
  }

  /// Takes the first tie with which more nodes are read, or fewer outputs contradict what is
  /// declared; whether there is one.
  bool add_tie(Attempt& now) {
    for (const Tie& tie : candidates(now)) {
      const auto before = ties_;
      take(tie);
      if (has_negative()) {
        ties_ = before;
        continue;
      }
      Attempt next = attempt();
      if (is_better(next, now)) {
        now = std::move(next);
        return true;
      }
      ties_ = before;
    }
    return false;
  }

  /// What probes have to be may be no sum of them, and something else for what is assumed.
  bool drop_numbers() {
    bool drops = false;
    for (std::optional<Sum>& tie : ties_) {
      if (!tie || !tie->times.empty()) continue;
      tie.reset();
      drops = true;
    }
    return drops;
  }

  /// Ties have free symbols alone in their sums, so that the tied one gives way in others.
  void take(const Tie& tie) {
    for (std::optional<Sum>& other : ties_) {
      if (!other || !other->times.contains(tie.symbol)) continue;
      const std::int64_t often = other->times.extract(tie.symbol).mapped();
      add(*other, tie.sum, often);
    }
    ties_[tie.symbol] = tie.sum;
  }

  bool has_negative() const {
    return std::ranges::any_of(ties_, [&](const std::optional<Sum>& tie) {
      return tie && (value_of(*tie, base_) < 0 || value_of(*tie, defaults_) < 0);
    });
  }

  /// What may help: symbols that are sums of others, symbols that keep what is assumed of them
  /// since it is no prime, and symbols that are numbers. An operator that is given three symbols in
  /// three inputs, as attention is, may allow more than one of these: a mask of past and new tokens
  /// is then what is meant.
  std::vector<Tie> candidates(const Attempt& attempt) const {
    enum Kind { sum, as_assumed, number, least };
    std::array<std::vector<Tie>, 4> by_kind;
    const auto add_tie = [&](Kind kind, const Tie& tie) {
      if (std::ranges::find(by_kind[kind], tie) == by_kind[kind].end())
        by_kind[kind].push_back(tie);
    };
    const auto add_equation = [&](const Sum& a, const Sum& b) {
      const std::optional<Tie> tie = solved(a, b);
      if (!tie) return;
      const bool is_least = value_of(tie->sum, defaults_) <= 1;
      add_tie(is_least ? least : tie->sum.times.empty() ? number : sum, *tie);
    };
    for (const Tie& tie : sums_of_inputs(attempt.refused)) add_tie(sum, tie);
    for (const auto& [a, b] : with_flattened(disagreements(attempt.refused)))
      for (const Sum& of_a : sums_of(a))
        for (const Sum& of_b : sums_of(b)) add_equation(of_a, of_b);
    for (const auto& [symbol, declared, extent] : attempt.contradictions)
      for (const Sum& of_output : sums_of(extent))
        add_equation(sum_of(symbol, declared), of_output);
    for (const std::size_t symbol : symbols_given(attempt))
      add_tie(as_assumed, {symbol, {defaults_[symbol], {}}});
    if (!options_.may_be_least || attempt.is_whole) by_kind[least].clear();
    std::vector<Tie> found;
    for (const std::vector<Tie>& ties : by_kind)
      found.insert(found.end(), ties.begin(), ties.end());
    found.resize(std::min(found.size(), most_candidates));
    return found;
  }

  /// And what they are of the last sequence of a batch whose sequences stand one behind another, as
  /// rows that a Gather reads: it needs 2 * 128 + 256 of 3 * 128.
  std::vector<Disagreement> with_flattened(std::vector<Disagreement> found) const {
    const std::size_t count = found.size();
    for (const std::int64_t batch : options_.known)
      for (std::size_t i = 0; batch > 1 && i < count; ++i) {
        const auto [a, b] = found[i];
        if (b % batch == 0)
          found.emplace_back(saturated_add(saturated_subtract(a, b), b / batch), b / batch);
        if (a % batch == 0)
          found.emplace_back(a / batch, saturated_add(saturated_subtract(b, a), a / batch));
      }
    return found;
  }

  /// Each symbol as the sum of two others, and of one and a given extent, where the symbols are in
  /// inputs of their own.
  std::vector<Tie> sums_of_inputs(const std::vector<Shape>& shapes) const {
    const auto has = [&](const Shape& shape, std::size_t symbol) {
      return std::ranges::find(shape, base_[symbol]) != shape.end();
    };
    std::vector<std::size_t> symbols;
    for (std::size_t s = 0; s < base_.size(); ++s)
      if (is_free(s) &&
          std::ranges::any_of(shapes, [&](const Shape& each) { return has(each, s); }))
        symbols.push_back(s);
    const auto are_apart = [&](std::size_t a, std::size_t b) {
      return a != b && std::ranges::none_of(
                           shapes, [&](const Shape& each) { return has(each, a) && has(each, b); });
    };
    std::vector<Tie> of_two;
    std::vector<Tie> of_one;
    for (const std::size_t whole : symbols) {
      for (const std::size_t a : symbols) {
        if (!are_apart(whole, a)) continue;
        for (const std::size_t b : symbols)
          if (a < b && are_apart(whole, b) && are_apart(a, b))
            of_two.push_back({whole, {0, {{a, 1}, {b, 1}}}});
        for (const std::int64_t given : options_.known)
          if (given > 0) of_one.push_back({whole, {given, {{a, 1}}}});
      }
    }
    of_two.insert(of_two.end(), of_one.begin(), of_one.end());
    return of_two;
  }

  /// The tie that the equation means, of a symbol on one side of it: rather a sum than a
  /// difference, and rather of a later symbol.
  std::optional<Tie> solved(const Sum& a, const Sum& b) const {
    Sum difference = a;
    add(difference, b, -1);
    std::optional<Tie> best;
    for (const auto& [symbol, times] : difference.times) {
      if ((times != 1 && times != -1) || (a.times.contains(symbol) && b.times.contains(symbol)))
        continue;
      Tie tie{symbol, {}};
      add(tie.sum, difference, -times);
      tie.sum.times.erase(symbol);
      if (!best || best->subtracts() || !tie.subtracts()) best = std::move(tie);
    }
    return best;
  }

  /// What the symbol is, if it is free; else the extent.
  Sum sum_of(const std::string& symbol, std::int64_t extent) const {
    const auto found = std::ranges::find(assumed_, symbol, &Assumption::name);
    const auto place = static_cast<std::size_t>(found - assumed_.begin());
    return found != assumed_.end() && is_free(place) ? Sum{0, {{place, 1}}} : Sum{extent, {}};
  }

  /// What the extent may be a sum of: a free symbol, two of them, one of them and a known extent;
  /// last the number that it is.
  std::vector<Sum> sums_of(std::int64_t extent) const {
    std::vector<Sum> sums;
    for (std::size_t s = 0; s < base_.size(); ++s)
      if (is_free(s) && base_[s] == extent) sums.push_back({0, {{s, 1}}});
    for (std::size_t s = 0; s < base_.size(); ++s) {
      if (!is_free(s)) continue;
      const std::int64_t rest = saturated_subtract(extent, base_[s]);
      for (std::size_t t = s + 1; t < base_.size(); ++t)
        if (is_free(t) && base_[t] == rest) sums.push_back({0, {{s, 1}, {t, 1}}});
      if (base_[s] == rest) sums.push_back({0, {{s, 2}}});
      if (addends_.contains(rest)) sums.push_back({rest, {{s, 1}}});
    }
    sums.push_back({extent, {}});
    return sums;
  }

  /// The free symbols in what the refused node's extents may be sums of.
  std::set<std::size_t> symbols_given(const Attempt& attempt) const {
    std::set<std::size_t> symbols;
    for (const Shape& shape : attempt.refused)
      for (const std::int64_t extent : shape)
        for (const Sum& sum : sums_of(extent))
          for (const auto& [symbol, times] : sum.times) symbols.insert(symbol);
    return symbols;
  }

  Extents extents() const {
    Extents all = base_;
    for (std::size_t s = 0; s < ties_.size(); ++s)
      if (ties_[s]) all[s] = value_of(*ties_[s], base_);
    return all;
  }

  Assumptions assumed_with(const Extents& extents) const {
    Assumptions assumed = assumed_;
    for (std::size_t s = 0; s < assumed.size(); ++s) {
      assumed[s].extent = extents[s];
      if (ties_[s]) assumed[s].formula = text_of(*ties_[s]);
    }
    return assumed;
  }

  /// Empty for a number. What is added comes first.
  std::string text_of(const Sum& sum) const {
    if (sum.times.empty()) return "";
    std::vector<std::pair<bool, std::string>> terms;  // is it taken away
    for (const auto& [symbol, times] : sum.times) {
      const std::string factor = magnitude(times) == 1 ? "" : fmt::format("{}*", magnitude(times));
      terms.emplace_back(times < 0, factor + assumed_[symbol].name);
    }
    if (sum.number != 0) terms.emplace_back(sum.number < 0, std::to_string(magnitude(sum.number)));
    std::ranges::stable_sort(terms, {}, &std::pair<bool, std::string>::first);
    std::string text;
    for (const auto& [is_taken, term] : terms)
      text += (text.empty() ? (is_taken ? "-" : "") : (is_taken ? " - " : " + ")) + term;
    return text;
  }

  Attempt attempt() const { return try_extents_(assumed_with(extents())); }

  const Assumptions assumed_;
  const TieOptions options_;
  std::set<std::int64_t> addends_;
  const TryExtents& try_extents_;
  Extents defaults_;
  Extents base_;                          ///< of free symbols: probes, or what is assumed
  std::vector<std::optional<Sum>> ties_;  ///< by symbol
};

}  // namespace

Ties tie_extents(Assumptions assumed, TieOptions options, const TryExtents& try_extents) {
  return TieSearch(std::move(assumed), std::move(options), try_extents).run();
}

}  // namespace autopar::graph
