"""The data the lessons train on, shipped with the course: nothing is downloaded at run time.

Owns the one data file and its licence. Imports nothing but numpy, and that when the data are asked for, so that a rank
or a kernel can load it at any time.
"""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = ["load_digits"]


def load_digits() -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """Return ``(images, labels)``: 1,797 handwritten digits in a fixed order.

    ``images`` has shape (1797, 8, 8), uint8, ink from 0 (paper) to 16 (full): divide by 16 for the range 0
    to 1. ``labels`` has shape (1797,), uint8, the digit 0 to 9 that was written; the classes are about
    equally frequent.

    The test set of UCI's "Optical Recognition of Handwritten Digits" (E. Alpaydin, C. Kaynak, 1998) as
    scikit-learn distributes it; CC BY 4.0, see ``LICENSE-digits.txt`` beside the file.
    """
    import numpy as np

    with (files(__name__) / "digits.npz").open("rb") as file, np.load(file, allow_pickle=False) as stored:
        return stored["images"], stored["labels"]
