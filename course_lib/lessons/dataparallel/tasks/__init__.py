"""The task of lesson 01: a DataParallel script turned into one for DDP."""
