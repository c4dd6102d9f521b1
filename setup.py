"""Everything is in pyproject.toml, but for one thing that setuptools does not do of its own accord.

An editable install (`pip install -e .`, as `make` does it) leaves out data files: setuptools asks its distribution for
`has_data`, which there is not (`editable_wheel.py`, as of setuptools 84). Without that file, no Jupyter server would
load the course's extension.
"""

from setuptools import Distribution, setup


class WithDataFiles(Distribution):
    """Says that there are data files, by the name that editable installs ask for."""

    def has_data(self) -> bool:
        """Whether there are data files to install."""
        return bool(self.data_files)


setup(distclass=WithDataFiles)
