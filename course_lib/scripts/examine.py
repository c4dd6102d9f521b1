"""`examine` runs a script on ranks and says how it went; lessons import it from here."""

from realranks.scripts.examine import examine

__all__ = ["examine"]
