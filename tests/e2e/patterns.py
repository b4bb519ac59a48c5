"""
Data for the example trainings: ten blurred patterns, which a small network tells apart.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import numpy


def write(path):
    draw = numpy.random.Generator(numpy.random.Philox(7))
    patterns = draw.random((10, 64))

    def images(count):
        labels = draw.integers(10, size=count)
        return numpy.clip(patterns[labels] + 0.3 * draw.normal(size=(count, 64)), 0, 1), labels

    (train, labels), (test, test_labels) = images(1500), images(300)
    numpy.savez(path, images=train, labels=labels, test_images=test, test_labels=test_labels)
    return path
