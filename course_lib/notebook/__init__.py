"""SHOW: magics, widgets and figures, and how notebooks are built from their sources."""
