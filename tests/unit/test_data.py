"""The digits are what the lessons and the licence say they are."""

import numpy as np

from course_lib.data import load_digits


def test_the_digits_have_the_promised_shapes_and_units():
    images, labels = load_digits()
    assert (images.shape, images.dtype) == ((1797, 8, 8), np.uint8)
    assert (labels.shape, labels.dtype) == ((1797,), np.uint8)
    assert (images.min(), images.max()) == (0, 16)
    assert set(labels) == set(range(10))


def test_the_classes_are_about_equally_frequent():
    _, labels = load_digits()
    assert all(174 <= count <= 183 for count in np.bincount(labels))


def test_the_order_is_the_one_scikit_learn_ships():
    images, labels = load_digits()
    assert labels[:12].tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1]
    assert images[0, 0].tolist() == [0, 0, 5, 13, 9, 1, 0, 0]
    assert int(images.sum(dtype=np.int64)) == 561718


def test_images_can_be_told_apart_by_their_class_means():
    """A cheap proof that images and labels belong together: nearest class mean is right nine times in ten."""
    images, labels = load_digits()
    flat = images.reshape(len(images), -1).astype(float)
    means = np.stack([flat[labels == digit].mean(axis=0) for digit in range(10)])
    nearest = ((flat[:, None, :] - means) ** 2).sum(axis=2).argmin(axis=1)
    assert (nearest == labels).mean() > 0.85


def test_every_call_returns_data_of_its_own():
    first, _ = load_digits()
    first[:] = 0
    second, _ = load_digits()
    assert second.any()


def test_the_licence_travels_with_the_data():
    from importlib.resources import files

    text = (files("course_lib.data") / "LICENSE-digits.txt").read_text(encoding="utf-8")
    assert "CC BY 4.0" in text
    assert "scikit-learn" in text
