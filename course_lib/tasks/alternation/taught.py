"""The lesson these tasks belong to, and where in it things are taught: headings of its source."""

LESSON = "06_alternation"

TWO_BACKWARDS = "lesson 06, Two forwards, then two backwards"
ONE_BACKWARD = "lesson 06, Two forwards, then one backward"
MATRIX = "lesson 06, The whole matrix"
REDUCER = "lesson 06, A reducer in 25 lines"
ALONE = "lesson 06, One rank evaluates"
REAL_LIFE = "lesson 06, What goes wrong in real life"
