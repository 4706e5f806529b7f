"""Strategies of one mesh axis, pinned to axes of a larger mesh."""


def is_partial(entry):
    return any("P" in spec for key in ("inputs", "outputs") for spec in entry.get(key, []))


def over_axes(plan, axes_of):
    """The operators of a one-axis plan with axis 0 written as axes_of(position) says. A sum that is
    kept partial over one axis cannot be read as one over another: such operators are left open."""
    operators = []
    for position, entry in enumerate(plan["operators"]):
        axes = axes_of(position)
        if is_partial(entry):
            continue
        operators.append(
            {
                key: [spec.replace("0", axes) for spec in value]
                if key in ("inputs", "outputs")
                else value
                for key, value in entry.items()
            }
        )
    return {"operators": operators}
