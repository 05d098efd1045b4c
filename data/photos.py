"""Photos of recipes as pixels: decoded safely, resized, cropped; the augmentation a function of a seed."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from PIL import Image
from torch.nn.functional import interpolate

from data.errors import InputError
from data.images import decode

# A picture this many times longer than wide is cut to its middle first, so that no header of a few bytes makes the
# resized picture enormous; the crops below lie in that middle.
_LONGEST = 4


def load_pixels(
    path: Path,
    train: bool = False,
    seed: int | Sequence[int] = 0,
    size: int = 224,
    resize: int = 256,
    decoder: str = "torchvision",
) -> torch.Tensor:
    """One photo as uint8 (3, size, size) RGB, as im2recipe sees it (Salvador et al. 2017, reference implementation).

    Short side to `resize` (bilinear, antialiased); then the middle `size` square, or in training a square of `size`
    at random from the middle square of `resize`, flipped left to right in half of the cases. What is drawn depends on
    `seed` alone, one number of 0 or more or several: make it of (seed, epoch, recipe), and any number of workers makes
    the same pixels.
    `decoder` is `torchvision`, or `pil` for the reference path, which is Pillow throughout. InputError where the file
    is absent, damaged or too large, see `data.images.decode`; there is no stand-in picture.
    The tensor is a view with channels last in memory, as decoders write them: copied into a batch of that memory format
    it costs a seventh of what it costs to part the channels.
    """
    if not 1 <= size <= resize:
        raise InputError(f"pixels: size={size} must be at least 1 and at most resize={resize}")
    picture = decode(path, decoder)
    height, width = picture.shape[1:]
    if max(height, width) > _LONGEST * min(height, width):
        longest = _LONGEST * min(height, width)
        picture = _middle(picture, min(height, longest), min(width, longest))
        height, width = picture.shape[1:]
    height, width = _target(height, width, resize)
    top, left = _middle_of(height, size), _middle_of(width, size)
    flip = False
    if train:
        down, right, flip = _draw(seed, resize - size)
        top, left = _middle_of(height, resize) + down, _middle_of(width, resize) + right
    if decoder == "pil":
        image = Image.fromarray(picture.permute(1, 2, 0).numpy()).resize((width, height), Image.Resampling.BILINEAR)
        image = image.crop((left, top, left + size, top + size))
        picture = torch.from_numpy(np.array(image)).permute(2, 0, 1)
    else:
        picture = _resized_part(picture, (height, width), (top, left), size)
    return picture.flip(2) if flip else picture


def photo_batch(
    paths: Sequence[Path],
    train: bool = False,
    seeds: Sequence[int | Sequence[int]] | None = None,
    size: int = 224,
    resize: int = 256,
    decoder: str = "torchvision",
) -> torch.Tensor:
    """Several photos as uint8 (B, 3, size, size) in channels-last memory; in training each has its own seed.

    See `load_pixels`. A number does not depend on the photos beside it.
    """
    if train and (seeds is None or len(seeds) != len(paths)):
        raise ValueError("training wants one seed for each photo")
    pixels = torch.empty(len(paths), 3, size, size, dtype=torch.uint8, memory_format=torch.channels_last)
    for i, path in enumerate(paths):
        pixels[i] = load_pixels(path, train, seeds[i] if seeds is not None else 0, size, resize, decoder)
    return pixels


def _target(height: int, width: int, resize: int) -> tuple[int, int]:
    """Height and width after resizing; the long side is rounded down."""
    if height <= width:
        return resize, int(resize * width / height)
    return int(resize * height / width), resize


def _middle_of(length: int, part: int) -> int:
    """Where the middle `part` of a length begins; half pixels as in torchvision."""
    return round((length - part) / 2)


def _middle(picture: torch.Tensor, height: int, width: int) -> torch.Tensor:
    """The middle of a picture (3, H, W)."""
    top, left = _middle_of(picture.shape[1], height), _middle_of(picture.shape[2], width)
    return picture[:, top : top + height, left : left + width]


def _resized_part(picture: torch.Tensor, whole: tuple[int, int], corner: tuple[int, int], size: int) -> torch.Tensor:
    """The square of `size` at `corner` of a picture that is resized to `whole`, without resizing the rest.

    Of photos of 4 by 3 that is nearly half of the work.
    """
    rows, columns = (_part(*axis, size) for axis in zip(picture.shape[1:], whole, corner, strict=True))
    picture = picture[None, :, rows.start : rows.end, columns.start : columns.end]
    # As decoders write it, but for a few formats; torch resizes this memory format several times faster.
    picture = picture.contiguous(memory_format=torch.channels_last)
    out = interpolate(picture, (rows.pixels, columns.pixels), mode="bilinear", antialias=True)[0]
    return out[:, rows.skip : rows.skip + size, columns.skip : columns.skip + size]


class _Part(NamedTuple):
    start: int  # of the source
    end: int
    pixels: int  # of the result
    skip: int  # how many of them come before those asked for


def _part(length: int, whole: int, corner: int, size: int) -> _Part:
    """What of a source of `length` is needed for the pixels corner..corner+size of it resized to `whole`.

    The part begins and ends where a pixel border of the result falls on one of the source, or nearly, so that its
    pixels are those of the whole; two more pixels on either side keep the filter whole.
    """
    step = length / whole
    first = _border(range(max(corner - 2, 0), max(corner - 40, -1), -1), step, 0)
    last = _border(range(min(corner + size + 2, whole), min(corner + size + 40, whole) + 1), step, whole)
    return _Part(round(first * step), round(last * step), last - first, corner - first)


def _border(candidates: range, step: float, end: int) -> int:
    """The first candidate within 1/50 pixel of a border of the source, else the best within 1/10, else the end."""
    off = [abs(candidate * step - round(candidate * step)) for candidate in candidates]
    near = next((i for i, value in enumerate(off) if value < 0.02), off.index(min(off)))
    return candidates[near] if off[near] < 0.1 else end


def _draw(seed: int | Sequence[int], free: int) -> tuple[int, int, bool]:
    """Top and left of the crop in 0..free, and whether to flip."""
    generator = np.random.default_rng(seed if isinstance(seed, int) else [int(number) for number in seed])
    top, left = generator.integers(free + 1, size=2).tolist()
    return top, left, bool(generator.integers(2))
