"""The figure of a run under load."""

from __future__ import annotations

import xml.etree.ElementTree

import pytest
import soak_figure


@pytest.mark.parametrize("requests, latency", [(100, 2.5), (0, None)], ids=["answers", "no answers"])
def test_a_run_is_drawn_with_and_without_answers(requests, latency):
    second = {"memory": 50.0, "descriptors": 20, "threads": 4, "p50": latency, "p99": latency, "requests": requests}
    figure = soak_figure.draw([{"time": time, **second} for time in range(20)], "a run", 5.0)
    names = [element.text for element in xml.etree.ElementTree.fromstring(figure).iter("{http://www.w3.org/2000/svg}text")]
    assert ("p50" in names) == (latency is not None) and "answers" in names
