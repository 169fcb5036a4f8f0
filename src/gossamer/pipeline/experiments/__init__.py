"""Experiments: grids of simulations on Spark, with metrics from their traces, figures, claims and a report."""
