"""Several ranks: skew, stragglers, communication."""
