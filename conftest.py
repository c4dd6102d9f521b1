"""Loaded by every run of pytest here, also by plain ``pytest --nbval notebooks``: keep it this short."""

pytest_plugins = ["tests.nbval_share", "tests.side_by_side", "tests.tiers"]
