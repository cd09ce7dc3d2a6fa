"""Tables by name or kind that every user needs: overview, kernel, API, operator, user ranges, model, metrics."""
