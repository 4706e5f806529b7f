"""What scripts/gpu_check is made of: a section a module, each with `check(context)`."""
