"""TEACH: the lessons, a folder each with all that is a lesson's own (see `course_lib.syllabus`); index and glossary."""
