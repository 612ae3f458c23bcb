"""What the string below a field says of it.

Pydantic can read these strings itself (``use_attribute_docstrings``), but it does so for every
class at import, by parsing its source: a fifth of what an import of the models takes, for texts
that only the editors' schema and a few messages show.
"""

from __future__ import annotations

import ast
import inspect
import sys
from functools import cache
from itertools import pairwise


@cache
def _docs_of_module(module: str) -> dict[str, dict[str, str]]:
    """Class → field → text, for the classes of one module."""
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {node.name: _docs_of_class(node) for node in tree.body if isinstance(node, ast.ClassDef)}


def _docs_of_class(node: ast.ClassDef) -> dict[str, str]:
    return {
        field.target.id: inspect.cleandoc(text.value.value)
        for field, text in pairwise(node.body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }


def field_docs(model: type) -> dict[str, str]:
    """Field → the string below it, those of base classes included."""
    docs: dict[str, str] = {}
    for ancestor in reversed(model.__mro__):
        if ancestor.__module__.startswith(__package__ or ""):
            docs |= _docs_of_module(ancestor.__module__).get(ancestor.__name__, {})
    return docs
