"""Tasks of lesson 17: what a rank holds under DDP, ZeRO and FSDP2, and a model that is sharded and trained."""
