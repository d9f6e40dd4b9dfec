"""Recipes of indexes that files hold: kinds that FAISS reads with care, of sizes that the vectors account for."""

import re

_CODES = r"(?:Flat|SQ(?:4|6|8|fp16)|PQ\d{1,5}(?:x\d{1,2}(?:fsr?)?)?)"
_STORED = re.compile(
    rf"(?:(?:IVF\d{{1,10}}(?:\({_CODES}\)|_HNSW\d{{1,3}})?,)?{_CODES}|HNSW\d{{1,3}}(?:,(?:Flat|SQ8))?)(?:,RFlat)?",
    re.ASCII,
)
_BOUNDS = {r"HNSW(\d+)": (2, 256), r"PQ\d+x(\d+)": (1, 12)}  # links of a node; bits, whose power is the table's size


def check_stored(recipe: object, rows: int, dim: int) -> str:
    """Return a recipe that a file may name for so many vectors: FAISS allocates what a name asks for at once."""
    if not isinstance(recipe, str) or not _STORED.fullmatch(recipe):
        raise ValueError(f"index={recipe!r} is not kept in files: Flat, SQ, PQ, HNSW, and IVF with one of them, are")
    for pattern, (least, most) in {**_BOUNDS, r"IVF(\d+)": (1, rows), r"PQ(\d+)": (1, dim)}.items():
        for found in re.findall(pattern, recipe):
            if not least <= int(found) <= most:
                raise ValueError(f"index={recipe!r} says {found}: from {least} to {most} are read with {rows} vectors")
    return recipe
