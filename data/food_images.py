"""Photos as models get them: decoded safely, upright, RGB, at most so long, and kept for the next prompt."""

import base64
import io
import os
import struct
import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from data.checksums import verify
from data.errors import InputError
from data.images import FORMATS, MAX_PIXELS

MAX_BYTES = 100 << 20  # of a file: no photo of 50 million pixels needs more
CACHE_BYTES = 256 << 20
TINY = 64  # pixels; JPEG would blur what such a picture shows

_REMEDY = "replace the file"
_ORIENTATION = 0x0112
_UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
# A photo whose EXIF is damaged is taken as upright, which needs no lines on the terminal.
warnings.filterwarnings("ignore", message="Corrupt EXIF data", category=UserWarning)


class ByteCache:
    """The last values used, as many as fit into `limit` bytes; safe among threads."""

    def __init__(self, limit: int) -> None:
        self.limit, self.used = limit, 0
        self._values: OrderedDict[Any, tuple[Any, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Any, make: Callable[[], tuple[Any, int]]) -> Any:
        """The value of `key`; where it is not there, `make()` gives it and its size in bytes."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key][0]
        value, size = make()  # two threads may make the same one, which costs less than waiting for each other
        with self._lock:
            if key not in self._values and size <= self.limit:
                self._values[key] = value, size
                self.used += size
            while self.used > self.limit:
                self.used -= self._values.popitem(last=False)[1][1]
        return value

    def clear(self) -> None:
        """Forget all."""
        with self._lock:
            self._values.clear()
            self.used = 0


_cache = ByteCache(CACHE_BYTES)


def load_image(path: str | os.PathLike[str], longest_side: int = 1024) -> Image.Image:
    """One photo as RGB, turned upright by its EXIF orientation, its longer side at most `longest_side` pixels.

    A smaller photo keeps its size. JPEG files are decoded at a half, a quarter or an eighth where that is still larger
    than what is asked for. The picture is shared with later calls: read it, do not draw on it.

    Raises:
        InputError: absent, no picture, truncated, or its header states more than `data.images.MAX_PIXELS` pixels.
    """
    file = Path(path)

    def make() -> tuple[Image.Image, int]:
        image = _decode(file, longest_side)
        return image, 3 * image.width * image.height

    return _cache.get(("image", *_key(file, longest_side)), make)


def encode_jpeg(image: Image.Image, quality: int = 90) -> bytes:
    """An RGB picture as a baseline JPEG file, without metadata."""
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=_quality(quality))
    return buffer.getvalue()


def data_uri(path: str | os.PathLike[str], longest_side: int = 1024, quality: int = 90) -> str:
    """One photo as a `data:` address, made smaller as `load_image` does.

    JPEG of that quality, or PNG where neither side is longer than 64 pixels, so that nothing of it is lost.
    """
    file = Path(path)

    def make() -> tuple[str, int]:
        image = _decode(file, longest_side)
        if max(image.size) <= TINY:
            buffer = io.BytesIO()
            image.save(buffer, "PNG")
            kind, data = "png", buffer.getvalue()
        else:
            kind, data = "jpeg", encode_jpeg(image, quality)
        text = f"data:image/{kind};base64,{base64.b64encode(data).decode('ascii')}"
        return text, len(text)

    return _cache.get(("uri", *_key(file, longest_side), _quality(quality)), make)


def _quality(quality: int) -> int:
    if not 1 <= quality <= 100:
        raise InputError(f"image quality {quality}: must be from 1 to 100; 90 is usual")
    return quality


def _key(path: Path, longest_side: int) -> tuple[Any, ...]:
    """What a decoded picture depends on: a file that is replaced is read again."""
    if longest_side < 1:
        raise InputError(f"longest side of images {longest_side}: must be 1 pixel or more; 1024 is usual")
    try:
        status = path.stat()
    except OSError as error:
        raise InputError(f"{path}: the picture cannot be read ({error.strerror}); check the image folder") from None
    if not path.is_file():
        raise InputError(f"{path}: is no file; check the image folder")
    if status.st_size > MAX_BYTES:
        raise InputError(f"{path}: the picture has {status.st_size >> 20} MiB, at most {MAX_BYTES >> 20} are read")
    return str(path), status.st_size, status.st_mtime_ns, longest_side


def _decode(path: Path, longest_side: int) -> Image.Image:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: the picture cannot be read ({error.strerror}); check the image folder") from None
    verify(path, data)
    try:
        picture = Image.open(io.BytesIO(data), formats=FORMATS)
    except Image.DecompressionBombError:
        raise _too_large(path) from None
    except (OSError, SyntaxError, ValueError, struct.error) as error:
        what = "is empty" if not data else "is no picture of a known kind"
        raise InputError(f"{path}: {what} ({', '.join(FORMATS)}); {_REMEDY}") from error
    with picture:
        width, height = picture.size
        if width * height > MAX_PIXELS:
            raise _too_large(path)
        share = min(longest_side / max(width, height), 1.0)
        size = max(round(width * share), 1), max(round(height * share), 1)
        try:
            picture.draft("RGB", size)  # not smaller than `size`; does nothing where the file is no JPEG
            image = _eight_bits(picture).convert("RGB")
        except (OSError, SyntaxError, ValueError, struct.error, Image.DecompressionBombError) as error:
            reason = str(error).split("\n")[0]
            raise InputError(f"{path}: the picture is damaged ({reason}); {_REMEDY}") from None
        turn = _UPRIGHT.get(_orientation(picture))
    if image.size != size:
        image = image.resize(size, Image.Resampling.BICUBIC, reducing_gap=2.0)
    image.info.clear()  # EXIF and XMP name places and people
    return image if turn is None else image.transpose(turn)


def _eight_bits(picture: Image.Image) -> Image.Image:
    """Grey of 16 bits as 8 bits; converted straight to RGB nearly all of it would come out white."""
    if not picture.mode.startswith("I"):
        return picture
    values = np.asarray(picture).astype(np.int64)
    return Image.fromarray((values.clip(0, 65535) // 257).astype(np.uint8))


def _orientation(picture: Image.Image) -> int:
    """EXIF orientation, 1 to 8; 1 where there is none or it cannot be read."""
    try:
        return int(picture.getexif().get(_ORIENTATION, 1))
    except Exception:  # Pillow raises half a dozen types for damaged EXIF; the picture itself is whole
        return 1


def _too_large(path: Path) -> InputError:
    return InputError(f"{path}: the picture has more than {MAX_PIXELS / 1e6:.0f} million pixels; make it smaller")
