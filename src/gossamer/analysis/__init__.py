"""The odds, before anything is deployed: the papers' models as functions of plain numbers.

`convergence` how many gossip rounds a packet needs (000 §4.2) · `bimodal` almost all or almost none
(004 §6 and Appendix A) · `buffering` how few copies are enough (003 §3) · `redelivery` what a partition
costs (001 §6) · `ordering` what agreement on an order costs (002 §4) · `planner` settings that meet a demand,
with `forecast`, their consequences, and `timeline`, the course of one gap. docs/analysis.md explains each.
"""

from gossamer.analysis import bimodal, buffering, convergence, forecast, ordering, planner, redelivery, timeline

__all__ = ["bimodal", "buffering", "convergence", "forecast", "ordering", "planner", "redelivery", "timeline"]
