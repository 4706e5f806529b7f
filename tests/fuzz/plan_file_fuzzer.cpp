#include "fuzzer.h"
#include "plan/plan_comparison.h"
#include "search/pins.h"

/// plan.json is read by `--strategy`, as pins, and by `autopar plan --compare`, here with itself.
void autopar::fuzz::try_input(Bytes input) {
  const std::filesystem::path file = file_of(input);
  allow_error([&] { search::load_pins(file); });
  const plan::PlanFile plan = plan::load_plan_file(file);
  plan::comparison_json(plan, plan, plan::compare_plans(plan, plan));
}
