"""Tasks of lesson 03: who gets which sample, anew in every epoch, and a score that counts nobody twice."""
