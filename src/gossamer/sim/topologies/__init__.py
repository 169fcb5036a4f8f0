"""One module per family of networks; `gossamer.sim.topology` is the way in."""
