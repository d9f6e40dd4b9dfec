"""For mkdocs: what documents link to outside of docs/ is named by its path in the repository, if it is there."""

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"(?<!!)\[(?P<text>[^\]]+)\]\((?P<path>\.\.?/[^)#\s]+)(?P<anchor>#[^)\s]*)?\)")


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    """Called for every page; what is missing is an error of the build."""
    here = Path(page.file.abs_src_path).parent
    docs = Path(config["docs_dir"])

    def replaced(match: re.Match[str]) -> str:
        target = (here / match["path"]).resolve()
        if target.is_relative_to(docs):
            return match[0]
        if not target.exists():
            raise FileNotFoundError(f"{page.file.src_uri} links to {match['path']}, which is not there")
        return f"{match['text']} (`{target.relative_to(ROOT)}`)"

    return LINK.sub(replaced, markdown)
