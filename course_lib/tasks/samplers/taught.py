"""The lesson these tasks belong to, and where in it things are taught: headings of its source."""

LESSON = "03_samplers"

SHARDS = "lesson 03, Ten samples, four ranks"
DROPPED = "lesson 03, drop_last: lose instead of repeat"
EPOCHS = "lesson 03, Shuffling, epoch by epoch"
LOADER = "lesson 03, Two samplers do not fit into one loader"
SEEDS = "lesson 03, A seed of one's own"
EVALUATE = "lesson 03, An accuracy that counts nobody twice"
STREAM = "lesson 03, A stream has no sampler"
UNEVEN = "lesson 03, Streams end when they like"
