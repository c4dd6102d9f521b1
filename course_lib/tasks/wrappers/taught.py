"""The lesson these tasks belong to, and where in it things are taught: headings of its source."""

LESSON = "07_wrappers"

FORUM = "lesson 07, The wrapper from the forum"
METHODS = "lesson 07, Only `forward` goes through"
DOORS = "lesson 07, Doors for other methods"
LOOKED_AFTER = "lesson 07, Who is looked after"
TEACHER = "lesson 07, A teacher"
FOLLOWS = "lesson 07, A teacher that follows"
