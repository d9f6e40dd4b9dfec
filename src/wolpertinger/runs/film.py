"""Pictures, one after another, into an mp4 or gif file."""

import os
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from wolpertinger.runs.run_folder import make_folder

if TYPE_CHECKING:
    from wolpertinger.envs.rendering.canvas import Frame

SUFFIXES = (".mp4", ".gif")
PALETTE_FRAMES = 16  # pictures that a gif's colours are taken from


def check_suffix(path: Path) -> None:
    """Films are .mp4 or .gif."""
    if path.suffix.lower() not in SUFFIXES:
        raise ValueError(f"{path} is no film: give a file that ends in .mp4 or .gif")


def write_film(path: Path, frames: Iterable["Frame"], fps: float) -> None:
    """Write a film by the suffix of its path; it appears there whole or not at all."""
    check_suffix(path)
    make_folder(path.parent)
    handle, name = tempfile.mkstemp(prefix=f".{path.stem}-", suffix=path.suffix.lower(), dir=path.parent)
    os.close(handle)
    part = Path(name)
    try:
        (_write_mp4 if part.suffix == ".mp4" else _write_gif)(part, map(_even, frames), fps)
        part.chmod(0o666 & ~_umask())  # temporary files are for their owner only
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _even(frame: "Frame") -> "Frame":
    """H.264 takes even sizes only."""
    height, width = frame.shape[:2]
    return np.ascontiguousarray(frame[: height - height % 2, : width - width % 2])


def _write_mp4(path: Path, frames: Iterator["Frame"], fps: float) -> None:
    """H.264 in yuv420p, its index first: what browsers play."""
    import imageio.v2 as imageio

    _require_ffmpeg()
    writer = imageio.get_writer(
        path,
        format="FFMPEG",
        fps=fps,
        codec="libx264",
        pixelformat="yuv420p",
        macro_block_size=2,
        ffmpeg_log_level="error",
        output_params=["-movflags", "+faststart"],
    )
    with closing(writer):  # its own `with` leaves ffmpeg running after an error
        for frame in frames:
            writer.append_data(frame)
    if not path.stat().st_size:
        raise OSError(f"ffmpeg wrote nothing to {path}: its own message is above; a .gif needs no ffmpeg")


def _require_ffmpeg() -> None:
    try:
        import imageio_ffmpeg

        imageio_ffmpeg.get_ffmpeg_exe()
    except (RuntimeError, ImportError) as error:
        raise OSError(f"no ffmpeg to write mp4 with ({error}): pip install imageio-ffmpeg, or write a .gif") from error


def _write_gif(path: Path, frames: Iterator["Frame"], fps: float) -> None:
    """One palette for all pictures and no dithering: what stands still then costs nothing."""
    from PIL import Image

    packed = []
    for frame in frames:  # whole pictures would be a megabyte each
        shape = frame.shape
        packed.append(zlib.compress(frame.tobytes(), 1))

    def unpack(data: bytes) -> Any:
        return Image.fromarray(np.frombuffer(zlib.decompress(data), np.uint8).reshape(shape))

    sample = [np.asarray(unpack(packed[i])) for i in np.linspace(0, len(packed) - 1, PALETTE_FRAMES).astype(int)]
    palette = Image.fromarray(np.concatenate(sample)).quantize(256)
    images = (unpack(data).quantize(palette=palette, dither=Image.Dither.NONE) for data in packed)
    first = next(images)
    first.save(path, save_all=True, append_images=images, duration=round(1000 / fps), loop=0)


def _umask() -> int:
    """The process's umask, which can only be read by setting it."""
    os.umask(mask := os.umask(0o077))
    return mask
