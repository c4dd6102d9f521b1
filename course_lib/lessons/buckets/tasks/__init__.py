"""Tasks of lesson 04: DDP written by hand, first naively, then in buckets; and its list of buckets predicted."""
