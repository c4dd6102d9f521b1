"""Tasks of lesson 09: an alarm for ranks that differ, a mutation, statistics over all ranks, stopping together."""
