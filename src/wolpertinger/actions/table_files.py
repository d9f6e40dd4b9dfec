"""An action table as files, on its own or inside an agent's: vectors, what was removed, the built index, its tuning."""

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import safetensors.numpy

from wolpertinger.archive import Buffer, CheckpointError, read_arrays, read_json, readable
from wolpertinger.index import Store, TunedIndex
from wolpertinger.index.faiss import FaissIndex
from wolpertinger.index.recipes import check_stored
from wolpertinger.settings import check_names, check_number

if TYPE_CHECKING:
    from wolpertinger.actions.table import ActionTable

CONFIG, INDEX = "table.json", "index-{}.faiss"
VECTORS, ADDED = "vectors.safetensors", "added.safetensors"
REMOVED, PACKED = "removed.safetensors", "packed.safetensors"
FIELDS = {"index", "recall", "build_seconds", "size", "dim", "sha256", "indexes", "tuned"}


def describe(table: "ActionTable", exclude: Iterable[str] = ()) -> dict[str, Buffer]:
    """The table's files by name; without the vectors, their fingerprint still says what they must be."""
    excluded = check_names("exclude", exclude, ("vectors",))
    with table._store.alone():  # vectors, what was removed and the index are of one moment
        return _describe(table, with_vectors="vectors" not in excluded)


def _describe(table: "ActionTable", *, with_vectors: bool) -> dict[str, Buffer]:
    index, store = table._index, table._store
    promised = index if isinstance(index, TunedIndex) else None
    built = promised.built if promised else _built(index)
    for recipe in built:
        check_stored(recipe, store.size, store.dim)  # what `restore` would refuse
    known = {"exact", "auto", *built}  # a recipe may not do for the rows that are left
    config = {
        "index": table.index if table.index in known else "auto" if promised else "exact",
        "recall": table.recall,
        "build_seconds": promised.build_seconds if promised else None,
        "size": store.size,
        "dim": store.dim,
        "sha256": table.sha256,
        "indexes": list(built),
        "tuned": {k: own for k, own in promised.state.items() if own["recipe"] in known} if promised else {},
    }
    files: dict[str, Buffer] = {CONFIG: json.dumps(config, indent=1).encode()}
    if with_vectors:
        files[VECTORS] = safetensors.numpy.save({"vectors": np.ascontiguousarray(store.vectors())})
    elif len(store.added):
        files[ADDED] = safetensors.numpy.save({"added": np.ascontiguousarray(store.added)})
    if len(store.removed):
        files[REMOVED] = safetensors.numpy.save({"removed": store.removed})
    if (packed := store.packed().names) is not None:
        files[PACKED] = safetensors.numpy.save({"packed": packed})
    files |= {INDEX.format(place): data.data for place, data in enumerate(built.values())}
    return files


def _built(index: Any) -> dict[str, npt.NDArray[np.uint8]]:
    data = index.to_bytes() if isinstance(index, FaissIndex) else None
    return {} if data is None else {index.recipe: data}


def restore(cls: Any, files: Mapping[str, bytes], vectors: npt.ArrayLike | None) -> Any:
    """The table that `describe` gave these files for."""
    with readable("the action table"):
        config = _check(read_json(files[CONFIG]))
        store = Store(_vectors(files, vectors))
        if ADDED in files and store.size < config["size"]:  # the given vectors are those before the additions
            store.add(read_arrays(files[ADDED])["added"])
        if (store.size, store.dim) != (config["size"], config["dim"]):
            raise CheckpointError(
                f"the vectors are {store.size} x {store.dim}, the table was saved with "
                f"{config['size']} x {config['dim']}"
            )
        if REMOVED in files:
            packed = read_arrays(files[PACKED])["packed"] if PACKED in files else None
            store.restore(read_arrays(files[REMOVED])["removed"], packed)
        built = {
            check_stored(recipe, store.size, store.dim): np.frombuffer(files[INDEX.format(place)], np.uint8)
            for place, recipe in enumerate(config["indexes"])
        }
        table = _make(cls, store, config, built)
        if table.sha256 != config["sha256"]:
            whose = "vectors in the file" if vectors is None else "given vectors"
            raise CheckpointError(
                f"the {whose} have SHA-256 {table.sha256}, the table was saved with {config['sha256']}"
            )
        return table


def _check(config: Any) -> dict[str, Any]:
    """Refuse what would have to be built: an index is in the file, or it is the exact scan."""
    if config.keys() != FIELDS:
        raise ValueError(f"{', '.join(sorted(config.keys() ^ FIELDS))} missing or unknown")
    for name in ("size", "dim"):
        check_number(name, config[name], least=1, whole=True)
    check_number("build_seconds", config["build_seconds"], optional=True)
    named = config["index"]
    if named not in ("exact", "auto", *config["indexes"]) or (named == "auto" and config["recall"] is None):
        raise ValueError(f"index={named!r} is not in the file, which holds {config['indexes']}")
    return config


def _make(cls: Any, store: Store, config: dict[str, Any], built: dict[str, npt.NDArray[np.uint8]]) -> Any:
    options = {} if config["build_seconds"] is None else {"build_seconds": config["build_seconds"]}
    table = cls(store, index=config["index"], recall=config["recall"], _built=built, **options)
    if isinstance(table._index, TunedIndex):
        table._index.state = config["tuned"]
    return table


def _vectors(files: Mapping[str, bytes], given: npt.ArrayLike | None) -> npt.ArrayLike:
    if given is not None:
        return given
    if VECTORS not in files:
        raise CheckpointError("the file holds no vectors: give vectors= to load, those that the table was saved with")
    return read_arrays(files[VECTORS])["vectors"]
