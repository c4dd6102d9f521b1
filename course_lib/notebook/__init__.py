"""SHOW: what the course adds to a notebook: questions, tasks, the map, a class board, links (`extension`)."""
