"""Solvers are told apart without colour, and by colours that can be seen."""

import pytest

from drobench.results.report.styles import DARK, LIGHT, styles

LIGHT_PAPER, DARK_PAPER = "#fbfbfa", "#131519"


def test_styles_do_not_depend_on_the_order_and_differ_without_colour():
    labels = [f"solver {number:02d}" for number in range(24)]
    found = styles(labels)
    assert found == styles(reversed(labels))
    assert len({(style.dash, style.marker) for style in found.values()}) == 24
    first = [found[label] for label in labels[:6]]
    assert len({style.colour for style in first}) == len({style.dash for style in first}) == 6


@pytest.mark.parametrize(("palette", "background"), [(LIGHT, LIGHT_PAPER), (DARK, DARK_PAPER)])
def test_every_colour_has_a_contrast_of_three_to_one(palette, background):
    for colour in palette:
        assert contrast(colour, background) >= 3, colour


def contrast(one, other):
    """By the formula of WCAG 2.1."""
    bright, dim = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


def luminance(colour):
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
