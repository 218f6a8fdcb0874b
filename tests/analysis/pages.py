"""What tests of report.html share."""

from pathlib import Path

from bires.analysis.curves import collect
from bires.analysis.report.write import page as write_page
from bires.analysis.summary import find
from bires.studies.reporting import about


def make_page(runs, out, command="", study=None):
    """report.html alone, without figures."""
    panels = collect(runs)
    out.mkdir()
    write_page(find(panels), out, about(panels, study, command))


def show(page, path: Path):
    """Opens a page in the browser."""
    page.goto(path.resolve().as_uri())
    page.wait_for_selector("body[data-ready=yes]")


def boxes_of(page, selector: str):
    """Where elements are."""
    return page.evaluate(
        "selector => [...document.querySelectorAll(selector)].map((one) => one.getBoundingClientRect().toJSON())",
        selector,
    )
