"""Tasks of lesson 09: an alarm for ranks that differ, a mutation that keeps them equal, statistics and stopping together."""
