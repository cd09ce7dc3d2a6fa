"""The colours of the page: neighbours are told apart, by readers with deuteranopia and tritanopia too.

Distances are CIE76 (L*a*b*, D65). Colour blindness is simulated with the matrices for severity 1.0 of Machado, Oliveira
and Fernandes, "A Physiologically-based Model for Simulation of Color Vision Deficiency" (IEEE TVCG 15, 2009), applied
to linear RGB. Contrast is that of WCAG 2.
"""

from __future__ import annotations

import re
from itertools import combinations, pairwise

import numpy as np
import numpy.typing as npt
import pytest
from support import TEMPLATES

from tracekit.model.schema import Kind
from tracekit.model.timeline import KERNEL_FAMILIES, KINDS_OF, OPERATOR_FAMILIES, family_kind
from tracekit.render.palette import variable_of

F64 = npt.NDArray[np.float64]

VISIONS: dict[str, F64] = {
    "all cones": np.eye(3),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)
_WHITE = np.array([0.95047, 1.0, 1.08883])

LEAST_DISTANCE = 10.0
LEAST_DISTANCE_OF_NAMES = 6.0
"""Between any name of one family and any of another: names are tones of their family's colour."""
LEAST_CONTRAST = 3.0
MODES = ("light", "dark")


def linear(color: str) -> F64:
    values = np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def lab(color: str, vision: str) -> F64:
    seen = _XYZ @ np.clip(VISIONS[vision] @ linear(color), 0, 1) / _WHITE
    x, y, z = np.where(seen > 216 / 24389, np.cbrt(seen), (24389 / 27 * seen + 16) / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def distance(one: str, other: str, vision: str) -> float:
    return float(np.linalg.norm(lab(one, vision) - lab(other, vision)))


def contrast(one: str, other: str) -> float:
    dark, bright = sorted(float(_XYZ[1] @ linear(color)) for color in (one, other))
    return (bright + 0.05) / (dark + 0.05)


def variables(name: str) -> dict[str, dict[str, str]]:
    """Return the colours of a style by mode: those of its first `:root`, and of the one for dark pages."""
    light, dark = re.findall(r":root \{(.*?)\}", (TEMPLATES / name).read_text(encoding="utf-8"), re.DOTALL)[:2]
    return {
        mode: {word: long(color) for word, color in re.findall(r"--([\w-]+): (#[0-9a-f]{3,6});", text)}
        for mode, text in zip(MODES, (light, dark), strict=True)
    }


def long(color: str) -> str:
    return color if len(color) == 7 else "#" + "".join(digit * 2 for digit in color[1:])


PALETTE = variables("palette.css")
PAGE = variables("report.css")

DEVICE = [
    *(variable_of(family_kind(family, "kernel")) for family in KERNEL_FAMILIES),
    *map(variable_of, ("kernel", "memcpy", "memset")),
]
"""On the lanes of a device, and in the parts of its time."""
HOST = sorted(
    {variable_of(kind) for kind in Kind if kind not in (Kind.KERNEL, Kind.MEMCPY, Kind.MEMSET)}
    | {variable_of(family_kind(family, "operator")) for family in OPERATOR_FAMILIES}
)
"""On the lanes of a thread, and in a flame graph of its time."""
SERIES = [*(variable_of("", place) for place in range(4)), "other"]
"""The layers of a curve, or the names of a bar with "others"."""
HEAT = ["fast-2", "fast", "slow", "slow-2", "slow-3"]
TOGETHER = {"device": DEVICE, "host": HOST, "series": SERIES, "heat": HEAT}
(TONES,) = (
    tuple(map(float, found.split(",")))
    for path in TEMPLATES.rglob("*.js")
    for found in re.findall(r"const TONES = \[([\d., ]+)\]", path.read_text(encoding="utf-8"))
)
"""How far the tone of a name is from the colour of its family to black, on a dark page to white."""
MARKS = sorted({*DEVICE, *HOST, *SERIES, *HEAT, "hatch"})


def test_the_measure_is_the_one_of_the_complaint() -> None:
    # "1.8 for operator and forward": their colours when that was written.
    assert distance("#5f8fae", "#4b8fa8", "deuteranopia") == pytest.approx(1.8, abs=0.01)
    assert contrast("#315c97", "#14191f") == pytest.approx(2.61, abs=0.01)  # a kernel on a dark page


# Black and white text on the parts of the first screen's bar, as templates/first_screen.css has it.
_INK = {
    "light": {"kernel": "#ffffff", "comm": "#000000", "memcpy": "#ffffff", "s1": "#ffffff", "s2": "#000000"}
    | {"s3": "#ffffff", "s4": "#ffffff", "other": "#000000"},
    "dark": {"s3": "#ffffff"} | dict.fromkeys(("kernel", "comm", "memcpy", "s1", "s2", "s4", "other"), "#000000"),
}


@pytest.mark.parametrize("mode", MODES)
def test_text_on_the_parts_of_a_bar_can_be_read(mode: str) -> None:
    low = {word: found for word, ink in _INK[mode].items() if (found := contrast(ink, PALETTE[mode][word])) < 4.5}
    assert low == {}


def test_every_colour_is_in_both_modes() -> None:
    assert PALETTE["light"].keys() == PALETTE["dark"].keys()
    assert {*MARKS, "idle"} == PALETTE["light"].keys()


def test_every_kind_and_family_has_a_colour_of_its_own_meaning() -> None:
    words = {variable_of(word) for word in (*Kind, *KINDS_OF)}
    assert words <= PALETTE["light"].keys()
    assert words.isdisjoint(SERIES[:4])
    # The kernels of a family and the operators of it differ, but for communication, which is one thing on both sides.
    assert set(DEVICE) & set(HOST) == {"comm"}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("vision", VISIONS)
@pytest.mark.parametrize("place", TOGETHER)
def test_neighbours_are_told_apart(place: str, vision: str, mode: str) -> None:
    colors = PALETTE[mode]
    near = {
        (one, other): round(found, 1)
        for one, other in combinations(TOGETHER[place], 2)
        if (found := distance(colors[one], colors[other], vision)) < LEAST_DISTANCE
    }
    assert near == {}


@pytest.mark.parametrize("mode", MODES)
def test_marks_stand_out_from_their_background(mode: str) -> None:
    low = {
        word: round(found, 2)
        for word in (*MARKS, "accent")
        if (found := contrast({**PALETTE[mode], **PAGE[mode]}[word], PAGE[mode]["bg"])) < LEAST_CONTRAST
    }
    assert low == {}


def tone(color: str, part: float, mode: str) -> str:
    values = (int(color[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{round(value + ((mode == 'dark') * 255 - value) * part):02x}" for value in values)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("vision", VISIONS)
@pytest.mark.parametrize("place", ["device", "host"])
def test_names_of_two_families_are_told_apart(place: str, vision: str, mode: str) -> None:
    tones = {word: [tone(PALETTE[mode][word], part, mode) for part in TONES] for word in TOGETHER[place]}
    near = {
        (one, other): round(found, 1)
        for one, other in combinations(tones, 2)
        if (found := min(distance(a, b, vision) for a in tones[one] for b in tones[other])) < LEAST_DISTANCE_OF_NAMES
    }
    assert near == {}


@pytest.mark.parametrize("mode", MODES)
def test_names_of_a_family_differ_in_lightness_and_stand_out(mode: str) -> None:
    for word in {*DEVICE, *HOST}:
        tones = [tone(PALETTE[mode][word], part, mode) for part in TONES]
        assert all(distance(a, b, "all cones") > 1 for a, b in pairwise(tones))
        contrasts = [contrast(each, PAGE[mode]["bg"]) for each in tones]
        assert contrasts == sorted(contrasts)
        # Black or white text on it can be read.
        assert all(max(contrast(each, "#000000"), contrast(each, "#ffffff")) >= 4.5 for each in tones)
