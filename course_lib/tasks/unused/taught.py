"""The lesson these tasks belong to, and where in it things are taught: headings of its source."""

LESSON = "08_unused"

ERROR = "lesson 08, Read the error"
LATE = "lesson 08, The last step"
RANKS = "lesson 08, Ranks that disagree"
MATRIX = "lesson 08, Four ways, twelve graphs"
ZEROS = "lesson 08, No gradient, or a gradient of zeros"
EXPERTS = "lesson 08, A mixture of experts"
BALANCE = "lesson 08, The part of the loss that is no mean"
GRAPH = "lesson 06, The whole matrix"
TWO_BACKWARDS = "lesson 06, Two forwards, then two backwards"
