"""A page made from a template and plain data, in one file; names of variables appear only as text."""

import html
import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import mtgbn
from mtgbn._utils.files import write_text
from mtgbn._utils.optional import require

REPORT_FILE = "report.html"

_HEIGHT_IN_NOTEBOOKS = 900


class Report:
    """A finished page; notebooks show it. `report_of` makes it.

    Attributes
    ----------
    html : str
        The whole page.

    Examples
    --------
    >>> Report("<p>Nothing was found.</p>")
    Report of 25 bytes; save_as_html(path) writes it
    """

    def __init__(self, page: str) -> None:
        self.html = page

    def save_as_html(self, path: str | Path) -> Path:
        """Write the page to a file, whole or not at all; returns the path."""
        path = Path(path)
        write_text(path, self.html)
        return path

    def _repr_html_(self) -> str:
        """The page within the page of a notebook."""
        return (
            f'<iframe title="mtgbn report" srcdoc="{html.escape(self.html)}" width="100%" '
            f'height="{_HEIGHT_IN_NOTEBOOKS}" style="border: 1px solid #d8dee6"></iframe>'
        )

    def __repr__(self) -> str:
        return f"Report of {len(self.html.encode()):,} bytes; save_as_html(path) writes it"


def render(template: str, data: dict[str, Any], **context: Any) -> Report:
    """Fill in a file of ``templates/``; ``data`` is for the scripts of the page."""
    jinja2 = require("jinja2", "report", "reports")
    safe = require("markupsafe", "report", "reports").Markup
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda name: _text("templates", name)),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["brief"] = brief
    page = environment.get_template(template).render(
        **context,
        version=mtgbn.__version__,
        style=safe(_text("static", "report.css")),
        scripts=[
            safe(_text("vendor", "cytoscape.min.js")),
            *(
                safe(_text("static", f"{name}.js"))
                for name in ("tables", "networks", "brain", "report")
            ),
        ],
        data=safe(_json_for_script(data)),
    )
    return Report(page + "\n")


def sentence(text: str) -> str:
    """A message as a sentence: with a full stop, and a capital unless it begins with a name."""
    if text.split(" ")[0].islower() and text.split(" ")[0].isalpha():
        text = text[0].upper() + text[1:]
    return text if text.endswith((".", "?", "!")) else text + "."


def brief(value: Any) -> str:
    """A setting as text: numbers with four digits."""
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "default"}[value]
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, dict | list | tuple):
        return json.dumps(value, ensure_ascii=False, default=str)
    return str(value)


def _json_for_script(data: dict[str, Any]) -> str:
    """JSON without characters that end the script element or, in old parsers, a line."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _text(folder: str, name: str) -> str:
    return (files("mtgbn.report") / folder / name).read_text(encoding="utf-8")
