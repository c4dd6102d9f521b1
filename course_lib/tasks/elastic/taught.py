"""The lesson these tasks belong to, and where in it things are taught: headings of its source."""

LESSON = "12_elastic"

SCRIPT = "lesson 12, A script that can be killed"
KILLS = "lesson 12, Three kills"
OFTEN = "lesson 12, How often to save"
