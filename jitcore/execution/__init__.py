"""From a call to the plan that runs: arguments described, specializations, entries, trials."""
