"""Check the rules of CONTRIBUTING.md that neither ruff nor import-linter knows.

Run by `make lint`: prints one line per finding, with what to do, and exits with 1 if there are any. It
reads the source alone and imports nothing, so it takes a second.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

PACKAGE = "mtgbn"
MOST_FIELDS_BY_POSITION = 8
MOST_POSITIONAL_ARGUMENTS = 7
MOST_PUBLIC_NAMES = 64

# Documented names of the standard library; those of named tuples have an underscore only to keep them
# apart from fields.
NOT_PRIVATE = {"_replace", "_asdict", "_fields", "_make", "_field_defaults", "_exit"}

# Numba offers no public way to a cache that may fail; see the docstring there.
MAY_USE_PRIVATE_ATTRIBUTES = (PACKAGE, "_utils", "compiled")

Finding = tuple[str, int, str]


class Module:
    """One file: its tree, and its dotted name in parts."""

    def __init__(self, path: Path, root: Path) -> None:
        self.path = path
        self.tree = ast.parse(path.read_text(encoding="utf-8"))
        parts = path.relative_to(root).with_suffix("").parts
        self.is_package = parts[-1] == "__init__"
        self.parts = parts[:-1] if self.is_package else parts

    @property
    def folder(self) -> str:
        """The folder of the package that this file is in; a file beside the folders is its own."""
        return self.parts[1] if len(self.parts) > 1 else ""


def decorator_names(node: ast.AST) -> set[str]:
    """Last parts of the names of all decorators."""
    names = set()
    for decorator in getattr(node, "decorator_list", []):
        call = decorator.func if isinstance(decorator, ast.Call) else decorator
        names.add(call.attr if isinstance(call, ast.Attribute) else getattr(call, "id", ""))
    return names


def structures(modules: list[Module]) -> dict[str, int]:
    """Number of fields of every named tuple and dataclass, by name."""
    found = {}
    for module in modules:
        for node in ast.walk(module.tree):
            if not isinstance(node, ast.ClassDef):
                continue
            bases = {getattr(base, "attr", getattr(base, "id", "")) for base in node.bases}
            if "NamedTuple" in bases or "dataclass" in decorator_names(node):
                found[node.name] = sum(isinstance(line, ast.AnnAssign) for line in node.body)
    return found


def built_by_position(module: Module, fields: dict[str, int]) -> Iterator[tuple[int, str]]:
    """Large structures that are built without the names of their fields."""
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if name == "_make" and isinstance(node.func, ast.Attribute):
            name = getattr(node.func.value, "id", "")
        if fields.get(name, 0) > MOST_FIELDS_BY_POSITION:
            yield (
                node.lineno,
                f"{name} has {fields[name]} fields and is built by position; name the fields",
            )


def many_arguments(module: Module) -> Iterator[tuple[int, str]]:
    """Functions with too many positional arguments, kernels with a docstring aside."""
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        count = len(node.args.posonlyargs) + len(node.args.args)
        if count <= MOST_POSITIONAL_ARGUMENTS:
            continue
        if isinstance(node, ast.Lambda):
            yield node.lineno, f"a lambda takes {count} positional arguments; write a function"
        elif "kernel" not in decorator_names(node):
            yield (
                node.lineno,
                f"{node.name} takes {count} positional arguments; make some keyword-only (after *) "
                "or gather them in a structure",
            )
        elif not ast.get_docstring(node):
            yield node.lineno, f"the kernel {node.name} takes {count} arguments; document them"


def is_private(name: str) -> bool:
    """Whether a name starts with one underscore."""
    return name.startswith("_") and not name.startswith("__")


def imported(module: Module) -> Iterator[tuple[int, str, str]]:
    """Line, module and name ("" for the module) of every import from the package."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == PACKAGE:
                    yield node.lineno, alias.name, ""
        elif isinstance(node, ast.ImportFrom):
            source = node.module or ""
            if node.level:
                parents = module.parts if module.is_package else module.parts[:-1]
                parents = parents[: len(parents) - node.level + 1]
                source = ".".join([*parents, *filter(None, [node.module])])
            if source.split(".")[0] == PACKAGE:
                for alias in node.names:
                    yield node.lineno, source, alias.name


def private_imports(module: Module) -> Iterator[tuple[int, str]]:
    """Underscore names of another folder, or of another file beside the folders."""
    for line, source, name in imported(module):
        parts = [*source.split(".")[1:], *filter(None, [name])]
        if not parts or parts[0] == module.folder:
            continue
        shared = parts[1:] if parts[0] == "_utils" else parts
        private = next((part for part in shared if is_private(part)), None)
        if private:
            yield line, f"{private} is private to mtgbn.{parts[0]}; give it a public name there"


def private_attributes(module: Module) -> Iterator[tuple[int, str]]:
    """Underscore attributes of other objects than `self` and `cls`, unless this file defines them."""
    if module.parts == MAY_USE_PRIVATE_ATTRIBUTES:
        return
    own = {
        node.name
        for node in ast.walk(module.tree)
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
    }
    own |= {
        node.attr
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and getattr(node.value, "id", "") in ("self", "cls")
    }
    for node in ast.walk(module.tree):
        if (
            isinstance(node, ast.Attribute)
            and is_private(node.attr)
            and node.attr not in NOT_PRIVATE | own
            and getattr(node.value, "id", "") not in ("self", "cls")
            and not (
                isinstance(node.value, ast.Call) and getattr(node.value.func, "id", "") == "super"
            )
        ):
            yield (
                node.lineno,
                f"{node.attr} is private to another object; use or make a public name",
            )
        if (
            isinstance(node, ast.Call)
            and getattr(node.func, "id", "") in ("getattr", "setattr")
            and len(node.args) > 1
            and isinstance(node.args[1], ast.Constant)
            and is_private(str(node.args[1].value))
            and getattr(node.args[0], "id", "") not in ("self", "cls")
        ):
            yield (
                node.lineno,
                f"{node.args[1].value} is reached by {node.func.id}; use a public name",
            )


def dynamic_imports(module: Module) -> Iterator[tuple[int, str]]:
    """Imports of own modules that import contracts cannot see."""
    if module.parts == (PACKAGE,):
        return
    for node in ast.walk(module.tree):
        if (
            isinstance(node, ast.Attribute)
            and node.attr == "modules"
            and getattr(node.value, "id", "") == "sys"
        ):
            yield node.lineno, "sys.modules goes around the import contracts; import the module"
        if not isinstance(node, ast.Call):
            continue
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if name == "__import__":
            yield node.lineno, "__import__ goes around the import contracts; write an import"
        if name in ("import_module", "find_spec") and node.args:
            texts = [
                part.value
                for part in ast.walk(node.args[0])
                if isinstance(part, ast.Constant) and isinstance(part.value, str)
            ]
            if any(text.split(".")[0] in (PACKAGE, "") for text in texts):
                yield (
                    node.lineno,
                    f"{name} of an own module goes around the import contracts; write an import",
                )


def listed_names(module: Module) -> tuple[int, list[str]]:
    """Line and content of `__all__`; names that a starred tuple or dict of the file holds included."""
    constants = {
        target.id: node.value
        for node in module.tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    if "__all__" not in constants:
        return 0, []
    value = constants["__all__"]
    names: list[str] = []
    for element in getattr(value, "elts", []):
        if isinstance(element, ast.Starred):
            starred = constants.get(getattr(element.value, "id", ""))
            element = (
                starred.keys if isinstance(starred, ast.Dict) else getattr(starred, "elts", [])
            )
        else:
            element = [element]
        names += [each.value for each in element if isinstance(each, ast.Constant)]
    return value.lineno, names


def documented(modules: list[Module]) -> dict[str, bool]:
    """Whether a function or class of this name has examples in its docstring."""
    found: dict[str, bool] = {}
    for module in modules:
        for node in module.tree.body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not is_private(node.name):
                text = ast.get_docstring(node) or ""
                found[node.name] = found.get(node.name, False) or "\nExamples\n----" in text
    return found


def public_names(modules: list[Module]) -> Iterator[Finding]:
    """Too many public names, and public functions and classes without examples."""
    examples = documented(modules)
    folders = {module.folder for module in modules} | {PACKAGE}
    seen: set[str] = set()
    for module in modules:
        if len(module.parts) > 2 or module.folder == "_utils":
            continue
        line, names = listed_names(module)
        for name in names:
            if name.startswith("__") or name in folders or name in seen:
                continue
            seen.add(name)
            # Errors and warnings are caught, not called.
            if module.folder != "errors" and name in examples and not examples[name]:
                yield str(module.path), line, f"{name} is public; add Examples to its docstring"
    if len(seen) > MOST_PUBLIC_NAMES:
        yield (
            str(Path("src") / PACKAGE / "__init__.py"),
            1,
            f"{len(seen)} public names, but {MOST_PUBLIC_NAMES} are the most; take some out of __all__",
        )


def findings(root: Path) -> Iterator[Finding]:
    """Everything that breaks a rule below a folder with the package."""
    modules = [Module(path, root) for path in sorted(root.glob(f"{PACKAGE}/**/*.py"))]
    fields = structures(modules)
    for module in modules:
        for line, text in (
            *built_by_position(module, fields),
            *many_arguments(module),
            *private_imports(module),
            *private_attributes(module),
            *dynamic_imports(module),
        ):
            yield str(module.path), line, text
    yield from public_names(modules)


def main() -> int:
    """Print the findings."""
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("src")
    found = list(findings(root))
    for path, line, text in found:
        print(f"{path}:{line}: {text}")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
