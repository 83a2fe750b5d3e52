"""HTML pages from templates: files beside the code that fills them, named from the package on (``explain/timeline.html``).

Rules:
1. Whatever a template is given is escaped, unless it is ``Markup``: a picture, or text of our own. Characters that a page can't hold
   become U+FFFD. A name that is not given is an error, never an empty place.
2. Templates are read as resources, so that they are found in an archive as well (``broker-sim pipeline package``).
3. A page loads nothing, and has a Content-Security-Policy that allows its template's style sheets and scripts alone, by their hashes:
   `{% call policy.style() %}`. Markup from outside that got past rule 1 would not run. The policy comes first in the head:
   `{{ policy }}`. It allows no styles in attributes; SVG has attributes of its own for them.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Sequence
from functools import cache
from hashlib import sha256
from importlib.resources import files

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from broker_sim.drawing.canvas import possible

__all__ = ["page"]


def page(template: str, *, styles: Sequence[str] = (), **values: object) -> str:
    """The page that ``template`` makes of these values; ``styles``: the style sheets in pictures among them. Raises jinja2's
    TemplateNotFound and UndefinedError."""
    policy = _Policy(styles)
    text = _environment().get_template(template).render(values, policy=policy)
    return text.replace(str(policy), policy.header(), 1)


class _Policy:
    """The Content-Security-Policy of a page (rule 3), as its template says it: where it belongs, and which elements are its own."""

    def __init__(self, styles: Sequence[str]) -> None:
        self._hashes = {"style-src": [_hash(one) for one in styles], "script-src": list[str]()}

    def __html__(self) -> str:
        """Placeholder of the policy, until all elements are known."""
        return '<meta http-equiv="Content-Security-Policy">'

    __str__ = __html__

    def style(self, caller: Callable[[], Markup]) -> Markup:
        """A style sheet."""
        return self._own("style", "style-src", caller())

    def script(self, caller: Callable[[], Markup]) -> Markup:
        """A script."""
        return self._own("script", "script-src", caller())

    def _own(self, tag: str, directive: str, content: Markup) -> Markup:
        self._hashes[directive].append(_hash(content))
        return Markup(f"<{tag}>{content}</{tag}>")

    def header(self) -> str:
        """The element."""
        allowed = (f"{directive} {' '.join(hashes)}" for directive, hashes in self._hashes.items() if hashes)
        policy = "; ".join(["default-src 'none'", *allowed, "base-uri 'none'", "form-action 'none'"])
        return f'<meta http-equiv="Content-Security-Policy" content="{policy}">'


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


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
