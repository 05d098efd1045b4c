"""Photos of recipes as pixels: decoded safely, resized, cropped; the augmentation a function of a seed."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torchvision.transforms.v2 import functional as transforms

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
    picture = _resized(picture, *_target(height, width, resize), decoder)
    if not train:
        return _middle(picture, size, size)
    top, left, flip = _draw(seed, resize - size)
    picture = _middle(picture, resize, resize)[:, top : top + size, left : left + size]
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


def _resized(picture: torch.Tensor, height: int, width: int, decoder: str) -> torch.Tensor:
    if decoder == "pil":
        image = Image.fromarray(picture.permute(1, 2, 0).numpy()).resize((width, height), Image.Resampling.BILINEAR)
        return torch.from_numpy(np.array(image)).permute(2, 0, 1)
    picture = picture.permute(1, 2, 0).contiguous().permute(2, 0, 1)  # as it is, but for a few formats
    return transforms.resize(picture, [height, width], antialias=True)


def _middle(picture: torch.Tensor, height: int, width: int) -> torch.Tensor:
    """The middle of a picture (3, H, W); half pixels as in torchvision."""
    top, left = round((picture.shape[1] - height) / 2), round((picture.shape[2] - width) / 2)
    return picture[:, top : top + height, left : left + width]


def _draw(seed: int | Sequence[int], free: int) -> tuple[int, int, bool]:
    """Top and left of the crop in 0..free, and whether to flip."""
    generator = np.random.default_rng(seed if isinstance(seed, int) else [int(number) for number in seed])
    top, left = generator.integers(free + 1, size=2).tolist()
    return top, left, bool(generator.integers(2))
