"""Experiments: grids of simulations on Spark, metrics from their traces, figures, claims and a report."""
