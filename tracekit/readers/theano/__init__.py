"""Reader of Theano's printed profiles."""
