"""The documentation site: every public name has its place and its words, every page is in the navigation."""

import inspect
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

import wolpertinger
import wolpertinger.envs
from scripts.site_links import on_page_markdown

ROOT = Path(__file__).parent.parent
LISTED = re.findall(r"^::: (\S+)$", (ROOT / "docs" / "api.md").read_text(), flags=re.MULTILINE)
NAMES = {
    *(getattr(wolpertinger, name) for name in wolpertinger.__all__ if name != "envs"),
    *(getattr(wolpertinger.envs, name) for name in wolpertinger.envs.__all__),
}


def test_the_reference_lists_every_public_name_once():
    assert sorted(LISTED) == sorted(f"{found.__module__}.{found.__name__}" for found in NAMES)


@pytest.mark.parametrize("found", sorted(NAMES, key=lambda found: found.__name__), ids=lambda found: found.__name__)
def test_public_names_and_their_methods_are_documented(found):
    assert inspect.getdoc(found)
    for name, part in vars(found).items() if inspect.isclass(found) else ():
        if not name.startswith("_") and (inspect.isfunction(part) or isinstance(part, property | classmethod)):
            assert inspect.getdoc(getattr(found, name, part)) or inspect.getdoc(part), f"{found.__name__}.{name}"


def test_every_page_is_in_the_navigation():
    named = set(re.findall(r"[\w/.-]+\.md", (ROOT / "mkdocs.yml").read_text().split("nav:")[1]))
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert named == pages - {"pictures/README.md"}


def follow(text):
    page = SimpleNamespace(file=SimpleNamespace(abs_src_path=ROOT / "docs" / "index.md", src_uri="index.md"))
    return on_page_markdown(text, page=page, config={"docs_dir": str(ROOT / "docs")}, files=None)


def test_links_out_of_the_site_become_paths_of_files_that_are_there():
    assert follow("[promise](../SECURITY.md#x) [k](choosing-k.md)") == "promise (`SECURITY.md`) [k](choosing-k.md)"
    with pytest.raises(FileNotFoundError, match=r"index\.md links to \.\./NOWHERE\.md, which is not there"):
        follow("[none](../NOWHERE.md)")
