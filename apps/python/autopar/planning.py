"""plan and partition."""

import json
import os
import warnings

from . import _native
from .options import fill, given, pairs, shape_texts, texts

_MODEL_TEXTS = {"shapes": shape_texts, "constants": pairs, "loops": pairs}
_PLAN_TEXTS = {"batch": texts, "memory": str, "stages": str}


def _model_options(model, values, weights_may_be_absent):
    options = fill(_native.ModelOptions(), {"file": os.fspath(model), **values})
    options.weights_may_be_absent = weights_may_be_absent
    return options


class Plan:
    """A plan that was found, with its model."""

    def __init__(self, found):
        self._found = found
        self.summary = found.summary()
        """What it predicts: ranks, stages, cost_seconds, lower_bound_seconds, proven_optimal,
        interrupted (by Ctrl-C), weight_bytes and peak_bytes of the fullest rank,
        one_device_seconds, one_device_bytes."""

    def json(self):
        """The contents of plan.json: the strategy of every operator."""
        return json.loads(self._found.json())

    def report(self):
        """What `autopar plan` tells of it."""
        return self._found.report()

    def write(self, out, force=False):
        """Writes the bundle, a new folder, or with `force` in the place of another bundle. Ctrl-C
        makes it raise Error and leave nothing."""
        return self._found.write(out, force)

    def __repr__(self):
        summary = self.summary
        proven = ", proven optimal" if summary.proven_optimal else ""
        return f"<autopar.Plan: {summary.ranks} ranks, {summary.cost_seconds:.3g} s a run{proven}>"


def plan(model, *, ngpus, shapes=None, profile_weights=None, constants=None, loops=None, limits=None,
         mesh=None, device=None, memory=None, search=None, bound=None, presolve=None, strategy=None,
         time_limit=None, stages=None, microbatches=None, batch=None, objective=None,
         discover=None, shards=None):  # fmt: skip
    """Searches for the best plan. What is None is as on the command line by default.

    `shapes`, `constants` and `loops` are dicts, or texts as the options take them. Of `shapes`, a
    tuple is an input's shape, {"x": (1, 128)}, a number is an extent of a symbolic dimension,
    {"batch": 4}, and a list has a value for each profile, {"sequence": [1, 128]}.

    Ctrl-C ends the search, and the best plan so far is returned. Files of weights may be missing.
    """
    return _plan(locals())


def partition(model, *, ngpus, out, force=False, shapes=None, profile_weights=None, constants=None,
              loops=None, limits=None, mesh=None, device=None, memory=None, search=None, bound=None,
              presolve=None, strategy=None, time_limit=None, stages=None, microbatches=None,
              batch=None, objective=None, discover=None, shards=None):  # fmt: skip
    """Searches for the best plan, writes its bundle, the folder `out`, and returns the plan. The
    other options are those of `plan`."""
    return _plan(locals())


def _plan(arguments):
    """`arguments`: of plan, or of partition, which has `out`."""
    values = given(arguments, *(name for name in arguments if name not in ("model", "out", "force")))
    for name, text in {**_MODEL_TEXTS, **_PLAN_TEXTS}.items():
        if name in values:
            values[name] = text(values[name])
    of_model = {name: values.pop(name) for name in
                ("shapes", "profile_weights", "constants", "loops", "limits") if name in values}
    writes = "out" in arguments
    model = _model_options(arguments["model"], of_model, weights_may_be_absent=not writes)
    options = fill(_native.PlanOptions(), values)
    place = (arguments["out"], arguments["force"]) if writes else ()
    _native.check_options(model, options, *place)
    loaded = _native.load_model(model, options)
    if writes and loaded.operators_without_kernel:
        missing = ", ".join(loaded.operators_without_kernel)
        warnings.warn(f"autopar has no CPU kernel for {missing}: it will refuse these shards",
                      stacklevel=3)
    found = Plan(_native.plan(loaded, options))
    if writes:
        found.write(*place)
    return found
