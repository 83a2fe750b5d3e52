"""HTML pages from templates: files beside the code that fills them, named from the package on (``explain/timeline.html``).

Rules:
1. Whatever a template is given is escaped, unless it is ``Markup``: a picture, or text of our own. Characters that a page can't hold
   become U+FFFD. A name that is not given is an error, never an empty place.
2. Templates are read as resources, so that they are found in an archive as well (``broker-sim pipeline package``).
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from broker_sim.drawing.canvas import possible

__all__ = ["page"]


def page(template: str, **values: object) -> str:
    """The page that ``template`` makes of these values. Raises jinja2's TemplateNotFound and UndefinedError."""
    return _environment().get_template(template).render(values)


@cache
def _environment() -> Environment:
    return Environment(
        loader=FunctionLoader(_source),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_printable,
        trim_blocks=True,
        keep_trailing_newline=True,
    )


def _source(name: str) -> str | None:
    """The source of a template by its name (rule 2); None if it does not exist."""
    place = files("broker_sim").joinpath(name)
    return place.read_text("utf-8") if place.is_file() else None


def _printable(value: object) -> object:
    """Replace characters that XML does not allow (rule 1)."""
    return possible(value) if isinstance(value, str) and not isinstance(value, Markup) else value
