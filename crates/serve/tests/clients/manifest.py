"""Whether a manifest is what KServe's own Python package says of its resources: names, types, and what has to be there."""

import importlib.util
import re
import sys
import types

import kubernetes.client

# The package itself would import its server, and with that much that is not installed.
package = types.ModuleType("kserve")
package.__path__ = importlib.util.find_spec("kserve").submodule_search_locations
sys.modules["kserve"] = package

import kserve.models

PLAIN = {"str": str, "int": int, "bool": bool, "float": (int, float), "object": object}


def check(kind, value, place="manifest"):
    """Raise a `ValueError` if a value is not of this kind."""
    if found := re.fullmatch(r"[Ll]ist\[(.*)\]", kind):
        expect(value, list, place)
        for number, one in enumerate(value):
            check(found[1], one, f"{place}[{number}]")
    elif found := re.fullmatch(r"[Dd]ict[\[(]str, (.*)[])]", kind):
        expect(value, dict, place)
        for name, one in value.items():
            check(found[1], one, f"{place}.{name}")
    elif kind in PLAIN:
        expect(value, PLAIN[kind], place)
    else:
        expect(value, dict, place)
        resource = getattr(kserve.models, kind, None) or getattr(kubernetes.client, kind)
        names = {written: name for name, written in resource.attribute_map.items()}
        if unknown := value.keys() - names:
            raise ValueError(f"{place}: {kind} has no {', '.join(sorted(unknown))}")
        for name, one in value.items():
            check(resource.openapi_types[names[name]], one, f"{place}.{name}")
        # It says what is missing.
        resource(**{names[name]: one for name, one in value.items()})


def expect(value, kind, place):
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ValueError(f"{place} is {value!r}, expected {kind}")
