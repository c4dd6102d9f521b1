"""WATCH A SCRIPT: run anybody's script on ranks of ours, or join ranks that torchrun has started; say how it went."""
